"""The outside of the agent: sysfs, cgroups, processes, sockets, files, gRPC."""
