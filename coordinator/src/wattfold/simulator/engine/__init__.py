"""Simulation of a pool: identical whole nodes, with decisions that take effect at once."""
