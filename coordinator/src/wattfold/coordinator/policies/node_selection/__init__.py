"""Which nodes of a pool of like nodes a job gets, once its size is decided."""
