"""Jobs of the node: start, cores, accounting and end."""
