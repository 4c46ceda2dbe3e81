"""Which nodes the units of a job go to, and how many of them to each.

All units on one node where one holds them, the one that they fill best; else on as few nodes as
possible: the nodes that hold most first, and for the rest the node that it fills best. Units that
are to be apart go to the nodes with the fewest cores left over. Ties go to the node that comes
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wattfold.coordinator.core.spread import Spread


class Fit(NamedTuple):
    """A node that has room for so many units; ``spare`` cores of it are free, ``at`` says where."""

    units: int
    spare: int
    at: int


Chosen = list[tuple[int, int]]
"""Nodes, by `Fit.at`, each with a number of units."""


def chosen(spread: Spread, size: int, fits: Sequence[Fit]) -> Chosen | None:
    """Nodes for so many units, in the order of the nodes; None if there is no room for them."""
    if spread is Spread.APART:
        return _apart(size, fits)
    one = _fullest(size, fits)
    if one is not None:
        return [(one.at, size)]
    if spread is Spread.TOGETHER or sum(fit.units for fit in fits) < size:
        return None
    return sorted(_over_few(size, fits))


def in_turn(spread: Spread, size: int, fits: Sequence[Fit]) -> Chosen | None:
    """The same, but on the first of these nodes, whatever is left over of them."""
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
    """The node with room for so many of which least is left over."""
    able = [fit for fit in fits if fit.units >= units]
    return min(able, key=lambda fit: (fit.spare, fit.at), default=None)


def _apart(size: int, fits: Sequence[Fit]) -> Chosen | None:
    if len(fits) < size:
        return None
    best = sorted(fits, key=lambda fit: (fit.spare, fit.at))[:size]
    return sorted((fit.at, 1) for fit in best)


def _over_few(size: int, fits: Sequence[Fit]) -> Chosen:
    """Of nodes that hold them together, but none alone."""
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
