"""Training jobs of a simulation."""
