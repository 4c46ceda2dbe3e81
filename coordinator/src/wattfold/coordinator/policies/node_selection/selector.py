"""The one interface of all strategies that choose nodes.

A selector holds which nodes are free. Nodes are numbers from 0. What it hands out is opaque to a
caller that only passes it back: a plain list where speed is all, else a sorted int32 array;
`joined` puts two of them together. Selectors use no chance: the same calls give the same nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np

NodesT = TypeVar("NodesT")


class NotEnoughFreeNodes(Exception):  # noqa: N818
    """Not now: more nodes are asked for than are free. Nothing has been taken."""

    def __init__(self, wanted: int, free: int) -> None:
        super().__init__(wanted, free)
        self.wanted = wanted
        self.free = free

    def __str__(self) -> str:
        return f"{self.wanted} nodes requested, {self.free} are free"


class NodeSelector(Protocol[NodesT]):
    """Which nodes are free, and which of them to take."""

    @property
    def free(self) -> int:
        """Number of free nodes."""

    def take(self, count: int) -> NodesT:
        """Nodes for a new job. Raises NotEnoughFreeNodes, in no other case."""

    def grow(self, held: NodesT, count: int) -> NodesT:
        """``count`` nodes more for a job that holds ``held``: the added ones only.

        Raises NotEnoughFreeNodes.
        """

    def shrink(self, held: NodesT, count: int) -> tuple[NodesT, NodesT]:
        """Releases ``count`` nodes of a job: those kept, and those released, free at once.

        Raises ValueError if the job holds fewer.
        """

    def give_back(self, nodes: NodesT) -> None:
        """A job's nodes are free again."""


class Strategy(StrEnum):
    """The strategies by the names a configuration uses."""

    ANY = "any"
    """Those given back last; the fastest, where the network does not matter."""
    FIRST = "first"
    """The lowest free numbers."""
    COMPACT = "compact"
    """As few runs of consecutive numbers as possible."""
    CUBOID = "cuboid"
    """A box of a torus, as near to a cube as one is free."""


def joined(held: NodesT, added: NodesT) -> NodesT:
    """Both together, as one selector has given them."""
    if isinstance(held, list) and isinstance(added, list):
        both: Any = held + added
    else:
        both = np.concatenate([held, added])
    return both  # type: ignore[no-any-return]


def check_wanted(count: int, free: int) -> None:
    """Raises NotEnoughFreeNodes, or ValueError for a negative count."""
    if count > free:
        raise NotEnoughFreeNodes(count, free)
    if count < 0:
        raise ValueError(f"the number of nodes must not be negative, got {count}")


def check_released(count: int, held: int) -> None:
    """Raises ValueError unless a job that holds so many nodes can release these."""
    if not 0 <= count <= held:
        raise ValueError(f"a job of {held} nodes cannot release {count}")
