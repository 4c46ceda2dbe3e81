"""Driver of schedulers from snapshots: rounds, sizes, placement, protection against starvation."""
