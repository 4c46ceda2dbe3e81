"""Plots of simulated runs and comparisons."""
