"""Commands of workloads: fetch, describe, convert, generate."""
