"""Published evaluations, run again: one package a paper."""
