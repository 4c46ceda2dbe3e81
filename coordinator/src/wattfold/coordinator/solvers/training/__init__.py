"""Which training jobs run now, on which node and how many of its GPUs (ANDREAS)."""
