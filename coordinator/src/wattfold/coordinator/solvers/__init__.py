"""Optimisation of sizes and caps of jobs, and the worker process that runs it."""
