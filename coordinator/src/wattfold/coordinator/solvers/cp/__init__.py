"""Constraint programming over the problem of `solvers.lists`, with OR-Tools CP-SAT."""
