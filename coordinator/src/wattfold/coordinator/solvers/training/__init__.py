"""Choice of the training jobs to run now, with their nodes and numbers of GPUs (ANDREAS)."""
