"""Placement of the units of a job: nodes, and number of units on each.

If one node can hold all units, they go to the node with the best fit. Otherwise they go to as few
nodes as possible: first the nodes that hold most units, and for the rest the node with the best
fit. Units that must be on separate nodes go to the nodes with the fewest leftover cores. Ties go to
the first node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wattfold.coordinator.core.model.jobs.spread import Spread


class Fit(NamedTuple):
    """A node that can hold ``units`` units. It has ``spare`` free cores; ``at`` is its number."""

    units: int
    spare: int
    at: int


Chosen = list[tuple[int, int]]
"""Nodes, by `Fit.at`, each with a number of units."""


def chosen(spread: Spread, size: int, fits: Sequence[Fit]) -> Chosen | None:
    """Return nodes for ``size`` units, in node order, or None if they do not fit."""
    if spread is Spread.APART:
        return _apart(size, fits)
    one = _fullest(size, fits)
    if one is not None:
        return [(one.at, size)]
    if spread is Spread.TOGETHER or sum(fit.units for fit in fits) < size:
        return None
    return sorted(_over_few(size, fits))


def in_turn(spread: Spread, size: int, fits: Sequence[Fit]) -> Chosen | None:
    """Return the same on the first of these nodes, regardless of leftover cores."""
    if spread is Spread.TOGETHER:
        return next(([(fit.at, size)] for fit in fits if fit.units >= size), None)
    found: Chosen = []
    for fit in fits:
        units = min(fit.units, size) if spread is Spread.ANY else 1
        if size <= 0:
            break
        found.append((fit.at, units))
        size -= units
    return sorted(found) if size <= 0 else None


def _fullest(units: int, fits: Sequence[Fit]) -> Fit | None:
    """Return the node that can hold ``units`` with the fewest leftover cores, or None."""
    able = [fit for fit in fits if fit.units >= units]
    return min(able, key=lambda fit: (fit.spare, fit.at), default=None)


def _apart(size: int, fits: Sequence[Fit]) -> Chosen | None:
    if len(fits) < size:
        return None
    best = sorted(fits, key=lambda fit: (fit.spare, fit.at))[:size]
    return sorted((fit.at, 1) for fit in best)


def _over_few(size: int, fits: Sequence[Fit]) -> Chosen:
    """Return a placement on nodes that hold the units together but not alone."""
    found: Chosen = []
    largest = sorted(fits, key=lambda fit: (-fit.units, fit.spare, fit.at))
    for number, fit in enumerate(largest):
        rest = _fullest(size, largest[number:]) if fit.units >= size else None
        if rest is not None:
            found.append((rest.at, size))
            break
        found.append((fit.at, fit.units))
        size -= fit.units
    return found
