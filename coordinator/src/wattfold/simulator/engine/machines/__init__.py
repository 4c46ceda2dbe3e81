"""Machines of a simulation: their nodes, and what is free on them."""
