"""`wattfold simulate`."""
