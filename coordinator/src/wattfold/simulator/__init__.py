"""Simulation: the production core and policies on virtual time, with their workloads."""
