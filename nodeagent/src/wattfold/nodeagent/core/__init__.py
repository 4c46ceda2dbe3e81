"""Rules of the agent as pure functions and values: no I/O, no clock, no wire format."""
