"""Commands about ended jobs: lists and reports from the history file."""
