"""The connection of a command to the coordinator."""
