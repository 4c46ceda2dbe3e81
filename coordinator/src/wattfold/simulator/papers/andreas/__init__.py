"""Evaluation of ANDREAS (Filippini et al.) on drawn training jobs."""
