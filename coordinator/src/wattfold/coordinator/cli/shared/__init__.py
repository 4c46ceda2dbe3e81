"""Common parts of the commands: the client, values, tables, errors."""
