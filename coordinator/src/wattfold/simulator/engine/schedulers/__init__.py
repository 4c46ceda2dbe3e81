"""Schedulers between the engine and the policies."""
