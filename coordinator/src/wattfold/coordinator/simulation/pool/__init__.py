"""Simulation of a pool: like nodes, given whole, decisions taken at once (no messages)."""
