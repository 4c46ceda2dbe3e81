"""`wattfold-coordinator`: the only place where core, policy and adapters are wired together."""
