"""Where the shims that resize programs are, for those who launch programs."""
