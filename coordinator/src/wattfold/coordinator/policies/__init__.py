"""Policies: one file, one policy, each a function of a snapshot."""
