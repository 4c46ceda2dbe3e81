"""Handlers of events: the change of the state for each kind of event."""
