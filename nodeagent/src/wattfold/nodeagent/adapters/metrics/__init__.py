"""Metrics of the agent in a file for the node exporter of Prometheus."""
