"""Where a node stands among the others, for the strategies that choose nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The number of a node, from 0, and by which strategy whole nodes are chosen.

    ``sides`` are those of the torus in which the number is a place, the last one counting fastest;
    empty for strategies that look at numbers alone.
    """

    strategy: str
    number: int
    sides: tuple[int, ...] = ()
