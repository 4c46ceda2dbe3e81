"""Adapters to gRPC, SQLite, the clock and other programs."""
