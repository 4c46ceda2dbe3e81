"""SD-Policy (D'Amico et al., ICPP 2019): waiting jobs start on cores borrowed from running jobs."""
