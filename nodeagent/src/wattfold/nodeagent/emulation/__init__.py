"""A powercap tree that behaves as the kernel and the firmware do, in memory and as files."""
