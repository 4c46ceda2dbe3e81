"""Logs and models of parallel workloads: read, repair, select, annotate and generate."""
