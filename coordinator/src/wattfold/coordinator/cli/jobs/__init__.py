"""Commands for jobs: submit, show, change, end and wait."""
