"""Rules for jobs: their events, attempts, ends and processes."""
