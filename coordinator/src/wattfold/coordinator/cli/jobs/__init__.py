"""Commands of jobs: submit, look, change, end, wait."""
