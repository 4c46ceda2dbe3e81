"""Simulation of a cluster by its messages: the service's own core and policies on virtual time."""
