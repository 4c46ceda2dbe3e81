"""Power of nodes: the programs of the site that suspend and start them."""
