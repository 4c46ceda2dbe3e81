"""Models of the speed and the power of jobs, shared by all policies and the simulator."""
