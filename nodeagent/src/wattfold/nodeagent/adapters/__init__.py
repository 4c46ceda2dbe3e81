"""Adapters of the agent to sysfs, cgroups, processes, sockets, files and gRPC."""
