"""What the agent does for its node: power, jobs, accounting. Joins the rules with the adapters."""
