"""The demonstration: a small site on one machine with real jobs under several policies."""
