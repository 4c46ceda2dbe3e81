"""Evaluation of slowdown-driven malleable backfill (D'Amico, Jokanovic and Corbalan, ICPP 2019)."""
