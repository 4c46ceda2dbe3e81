"""The agent of a node: enforces caps and core masks, starts and watches jobs, reports what is."""
