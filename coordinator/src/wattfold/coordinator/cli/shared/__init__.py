"""What commands have in common: the client, values, tables, errors."""
