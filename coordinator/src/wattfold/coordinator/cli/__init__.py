"""The `wattfold` command: what people type."""
