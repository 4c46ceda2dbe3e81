"""Reproductions of published evaluations, one package per paper."""
