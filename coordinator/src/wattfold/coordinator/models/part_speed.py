"""How fast a job is on parts of the nodes it asked for (D'Amico et al., ICPP 2019, Eq. 5 and 6).

* **ideal**: in proportion to the cores it has in all; work moves to where the cores are.
* **worst case**: every node is as slow as the one where the job has least of what it asked for
  there, since all of it waits for that one.

Cores count by what they are of a unit of the job, so that half of a small node is worth as much as
half of a large one. Progress is the time spent at a speed times that speed; a job ends when its sum
is its time at the full request.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple


class PartModel(enum.StrEnum):
    """What the speed of a job on parts of nodes follows."""

    IDEAL = "ideal"
    WORST_CASE = "worst-case"


class Part(NamedTuple):
    """So many like parts of nodes."""

    nodes: int
    cores: int
    """The job has of each."""
    asked: int
    """The job asked for of each; at least 1."""
    worth: int = 1
    """What a core there counts for, so that those of unlike nodes can be added."""


def effective(parts: Iterable[Part], model: PartModel) -> tuple[int, int]:
    """What the job has, in cores times worth: a whole number over another one, which is not 0."""
    if model is PartModel.IDEAL:
        return sum(part.nodes * part.cores * part.worth for part in parts), 1
    known = list(parts)
    least = min(known, key=lambda part: part.cores / part.asked)
    asked = sum(part.nodes * part.asked * part.worth for part in known)
    return asked * least.cores, least.asked


def stretched_ns(static_ns: int, asked: int, has: tuple[int, int]) -> int:
    """Time of a whole job that takes ``static_ns`` on what it asked for, rounded up.

    ``asked`` are cores times worth, ``has`` is `effective` of its parts, above zero.
    """
    cores, over = has
    return -(-static_ns * asked * over // cores)
