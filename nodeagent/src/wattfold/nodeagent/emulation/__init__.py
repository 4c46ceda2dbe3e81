"""A powercap tree that behaves like kernel and firmware, in memory and as files."""
