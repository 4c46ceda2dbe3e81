"""Common interface of all strategies that choose nodes.

A selector stores the free nodes. Nodes are numbers from 0. Callers that only pass node sets back
may treat them as opaque values: a plain list in the fastest strategy, otherwise a sorted int32
array. `joined` concatenates two of them. Selectors are deterministic: the same calls give the same
nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np

NodesT = TypeVar("NodesT")


class NotEnoughFreeNodes(Exception):  # noqa: N818
    """More nodes were requested than are free now. No node has been taken."""

    def __init__(self, wanted: int, free: int) -> None:
        super().__init__(wanted, free)
        self.wanted = wanted
        self.free = free

    def __str__(self) -> str:
        return f"{self.wanted} nodes requested, {self.free} are free"


class NodeSelector(Protocol[NodesT]):
    """Set of free nodes, with the strategy for taking them."""

    @property
    def free(self) -> int:
        """Number of free nodes."""

    def take(self, count: int) -> NodesT:
        """Take nodes for a new job. Raises NotEnoughFreeNodes if too few are free."""

    def grow(self, held: NodesT, count: int) -> NodesT:
        """Take ``count`` more nodes for a job that holds ``held``; return only the added nodes.

        Raises NotEnoughFreeNodes.
        """

    def shrink(self, held: NodesT, count: int) -> tuple[NodesT, NodesT]:
        """Release ``count`` nodes of a job; return the kept and the released nodes.

        The released nodes are free immediately. Raises ValueError if the job holds fewer.
        """

    def give_back(self, nodes: NodesT) -> None:
        """Release the nodes of a job."""


class Strategy(StrEnum):
    """Strategies, with their names in the configuration."""

    ANY = "any"
    """The last released nodes: the fastest strategy, if the network does not matter."""
    FIRST = "first"
    """The lowest free numbers."""
    COMPACT = "compact"
    """As few runs of consecutive numbers as possible."""
    CUBOID = "cuboid"
    """A box of a torus, as close to a cube as possible."""


def joined(held: NodesT, added: NodesT) -> NodesT:
    """Return the concatenation of two node sets of the same selector."""
    if isinstance(held, list) and isinstance(added, list):
        both: Any = held + added
    else:
        both = np.concatenate([held, added])
    return both  # type: ignore[no-any-return]


def check_wanted(count: int, free: int) -> None:
    """Raise NotEnoughFreeNodes, or ValueError for a negative count."""
    if count > free:
        raise NotEnoughFreeNodes(count, free)
    if count < 0:
        raise ValueError(f"the number of nodes must not be negative, got {count}")


def check_released(count: int, held: int) -> None:
    """Raise ValueError unless a job with ``held`` nodes can release ``count``."""
    if not 0 <= count <= held:
        raise ValueError(f"a job of {held} nodes cannot release {count}")
