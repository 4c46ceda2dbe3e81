"""Search for starts in queue order: EASY, PBS and conservative backfilling."""
