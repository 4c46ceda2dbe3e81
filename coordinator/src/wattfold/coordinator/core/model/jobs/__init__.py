"""The values of which a job consists."""
