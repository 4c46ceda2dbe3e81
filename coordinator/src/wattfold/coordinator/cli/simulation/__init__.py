"""Commands of the simulator: simulate, compare, reproduce."""
