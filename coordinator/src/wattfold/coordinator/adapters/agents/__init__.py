"""Contact with the agents: links, commands and leases."""
