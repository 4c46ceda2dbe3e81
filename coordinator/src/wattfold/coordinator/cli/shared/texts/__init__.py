"""Tables, columns, numbers and JSON documents that commands print."""
