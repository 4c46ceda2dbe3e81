"""The agent of a node: enforces caps and core masks, starts and monitors jobs, reports usage."""
