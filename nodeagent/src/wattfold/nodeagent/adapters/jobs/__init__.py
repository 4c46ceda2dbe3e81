"""Processes of jobs: accounts, control groups, cores, memory and steps."""
