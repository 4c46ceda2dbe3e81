"""The production core and policies on virtual time, and the workloads that drive them."""
