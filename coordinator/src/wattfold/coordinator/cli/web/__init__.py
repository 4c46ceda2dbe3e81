"""Web dashboard: a server that reads snapshots as the command does, and its page."""
