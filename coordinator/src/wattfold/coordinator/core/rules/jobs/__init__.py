"""What happens to jobs: their events, attempts, ends and processes."""
