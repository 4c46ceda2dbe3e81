"""Limits of users and accounts."""
