"""Copies of the state in other processes, and the views for people made from them."""
