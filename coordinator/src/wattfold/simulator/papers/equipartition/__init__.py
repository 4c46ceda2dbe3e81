"""Evaluation of the adaptive job scheduler of Kale, Kumar and DeSouza (CCGrid 2002)."""
