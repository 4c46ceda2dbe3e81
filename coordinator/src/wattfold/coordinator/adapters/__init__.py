"""Adapters: gRPC, SQLite, the clock; everything that touches the outside."""
