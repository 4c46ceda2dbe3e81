"""Choice of nodes in a pool of identical nodes for a job of known size."""
