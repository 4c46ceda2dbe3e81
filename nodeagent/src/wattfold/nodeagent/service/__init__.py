"""Services of the agent for its node: power, jobs, accounting. They connect rules and adapters."""
