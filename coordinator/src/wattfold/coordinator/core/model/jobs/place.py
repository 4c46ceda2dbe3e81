"""Position of a node among the others, for the strategies that choose nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The number of a node, from 0, and the strategy that chooses whole nodes.

    ``sides`` are the sides of the torus; the number is a position in it, with the last side
    counting fastest. They are empty for strategies that use only numbers.
    """

    strategy: str
    number: int
    sides: tuple[int, ...] = ()
