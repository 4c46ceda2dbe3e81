"""A simulated run from its description to its files, as in `wattfold simulate`."""
