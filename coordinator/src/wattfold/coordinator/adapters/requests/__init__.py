"""Requests of people: checks, refusals and the resulting events."""
