"""Advice from the history of a site: its past jobs under other policies and budgets."""
