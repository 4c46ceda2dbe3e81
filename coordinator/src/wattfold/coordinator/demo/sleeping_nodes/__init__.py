"""The demonstration of nodes that sleep."""
