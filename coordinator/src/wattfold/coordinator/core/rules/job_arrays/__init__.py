"""Job arrays: which tasks are jobs, and their counts."""
