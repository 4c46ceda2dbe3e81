"""Schedules of budgets: files of times and budgets, their preview and their announcement."""
