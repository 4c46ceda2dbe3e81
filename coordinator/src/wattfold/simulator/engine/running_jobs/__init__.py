"""Jobs of a simulation, and how they progress."""
