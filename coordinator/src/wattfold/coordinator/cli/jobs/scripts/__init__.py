"""Job scripts and their directives."""
