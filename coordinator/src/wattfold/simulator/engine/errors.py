"""Errors of the simulation of a pool."""

from __future__ import annotations


class SimulationError(Exception):
    """The simulation contradicts itself: a defect of a scheduler or of the engine."""
