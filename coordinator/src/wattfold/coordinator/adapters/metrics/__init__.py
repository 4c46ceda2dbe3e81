"""Metrics for Prometheus: counted in the coordinator, rendered in the view process."""
