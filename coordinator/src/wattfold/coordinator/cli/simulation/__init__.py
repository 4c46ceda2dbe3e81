"""Commands of the simulator: simulate, reproduce."""
