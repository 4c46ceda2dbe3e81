"""Simulation of a cluster with messages: the service's core and policies on virtual time."""
