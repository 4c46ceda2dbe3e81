"""Caps, leases and energy of the node."""
