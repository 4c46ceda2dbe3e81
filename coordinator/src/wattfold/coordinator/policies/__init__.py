"""Scheduling policies: one package per family; each policy maps a snapshot to a plan."""
