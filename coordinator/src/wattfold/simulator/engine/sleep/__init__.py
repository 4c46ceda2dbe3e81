"""Nodes of a simulation that sleep."""
