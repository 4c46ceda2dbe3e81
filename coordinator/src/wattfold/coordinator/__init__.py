"""The coordinator of Wattfold: decision core, policies, models, solvers, adapters, command line."""
