"""Resources of nodes and requests of jobs: free cores, memory, GPUs, and run time estimates."""
