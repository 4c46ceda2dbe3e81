"""ANDREAS (FiCloud 2021): training jobs planned by due date and energy price."""
