"""Evaluation of the CP scheduler of Bridi et al. on jobs of the machine Eurora."""
