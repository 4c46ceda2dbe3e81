"""The decision core: events in, actions out. No I/O, no clock, no logging, no wire format."""
