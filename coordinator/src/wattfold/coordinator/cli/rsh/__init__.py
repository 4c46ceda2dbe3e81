"""The remote shell that launchers of parallel programs are given."""
