"""One simulated run from its description to its files: what `wattfold simulate` is made of."""
