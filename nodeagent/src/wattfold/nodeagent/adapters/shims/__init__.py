"""The sockets of shims and of Charm++ programs."""
