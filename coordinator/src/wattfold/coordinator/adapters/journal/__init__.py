"""The journal: events on disk, checkpoints and replay."""
