"""The `wattfold` command for users and operators."""
