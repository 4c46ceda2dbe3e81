"""Remote shell for launchers of parallel programs."""
