"""The demonstration beside Slurm: a real Slurm keeps the queue, Wattfold keeps the budget."""
