"""The stored state, the values derived from it, and the changes by an event."""
