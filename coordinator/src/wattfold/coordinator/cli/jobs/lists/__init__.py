"""Lists and sheets of jobs."""
