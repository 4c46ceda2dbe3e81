"""Values of the core: nodes, jobs, plans, events and actions."""
