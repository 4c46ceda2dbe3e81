"""`wattfold reproduce`: the evaluations of the papers."""
