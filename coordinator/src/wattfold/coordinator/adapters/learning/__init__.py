"""Learning from measurements: profiles, epochs, residual work and core requests of programs."""
