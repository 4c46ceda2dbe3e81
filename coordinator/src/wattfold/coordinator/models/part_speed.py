"""Speed of a job on parts of its requested nodes (D'Amico et al., ICPP 2019, Eq. 5 and 6).

* **ideal**: in proportion to its total number of cores; work moves to where the cores are.
* **worst case**: every node is as slow as the node with the smallest part of its request, because
  the whole job waits for that node.

Cores count as fractions of a unit of the job, so that half of a small node counts as much as half
of a large node. Progress is the integral of the speed over time. A job ends when its progress
equals its time at the full request.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple


class PartModel(enum.StrEnum):
    """Model of the speed of a job on parts of nodes."""

    IDEAL = "ideal"
    WORST_CASE = "worst-case"


class Part(NamedTuple):
    """Identical parts of a number of nodes."""

    nodes: int
    cores: int
    """Cores of the job on each node."""
    asked: int
    """Requested cores on each node; at least 1."""
    worth: int = 1
    """Weight of a core, so that cores of different kinds of nodes can be added."""


def effective(parts: Iterable[Part], model: PartModel) -> tuple[int, int]:
    """Return the effective cores times worth as a fraction (numerator, denominator above 0)."""
    if model is PartModel.IDEAL:
        return sum(part.nodes * part.cores * part.worth for part in parts), 1
    known = list(parts)
    least = min(known, key=lambda part: part.cores / part.asked)
    asked = sum(part.nodes * part.asked * part.worth for part in known)
    return asked * least.cores, least.asked


def stretched_ns(static_ns: int, asked: int, has: tuple[int, int]) -> int:
    """Return the time of a whole job that takes ``static_ns`` on its request, rounded up.

    ``asked`` is cores times worth. ``has`` is `effective` of its parts, above zero.
    """
    cores, over = has
    return -(-static_ns * asked * over // cores)
