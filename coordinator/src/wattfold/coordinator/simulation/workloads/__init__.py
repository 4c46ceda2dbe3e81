"""Logs and models of parallel workloads: read, repaired, selected, annotated, generated."""
