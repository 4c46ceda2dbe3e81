"""Policies in queue order: FIFO, EASY, PBS and conservative backfilling."""
