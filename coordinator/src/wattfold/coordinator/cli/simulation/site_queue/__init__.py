"""Simulations of the current queue of a site."""
