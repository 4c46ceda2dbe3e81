"""Which nodes of a pool a job gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class NodeSelector(Protocol):
    """Gives nodes away and takes them back."""

    def take(self, count: int) -> Sequence[int]:
        """Nodes for a new job."""

    def grow(self, held: Sequence[int], count: int) -> Sequence[int]:
        """More nodes for a job; those added."""

    def shrink(self, held: Sequence[int], count: int) -> tuple[Sequence[int], Sequence[int]]:
        """A job keeps so many: those kept, and those given up, which are free already."""

    def give_back(self, nodes: Sequence[int]) -> None:
        """A job has ended."""


class AnySelector:
    """The nodes that came free last."""

    def __init__(self, nodes: int) -> None:
        self._free = list(range(nodes - 1, -1, -1))

    def take(self, count: int) -> Sequence[int]:
        """Nodes for a new job. Raises ValueError when there are not so many."""
        free = self._free
        if not 0 < count <= len(free):
            raise ValueError(f"{count} nodes asked for, {len(free)} are free")
        taken = free[-count:]
        del free[-count:]
        return taken

    def grow(self, held: Sequence[int], count: int) -> Sequence[int]:  # noqa: ARG002
        """More nodes for a job; those added."""
        return self.take(count)

    def shrink(self, held: Sequence[int], count: int) -> tuple[Sequence[int], Sequence[int]]:
        """A job keeps so many: those kept, and those given up."""
        kept, released = held[:count], held[count:]
        self.give_back(released)
        return kept, released

    def give_back(self, nodes: Sequence[int]) -> None:
        """A job has ended."""
        self._free.extend(nodes)


def selector(name: str, nodes: int, torus: tuple[int, ...] = ()) -> NodeSelector:  # noqa: ARG001
    """The selector of a name. Raises ValueError for an unknown one."""
    if name != "any":
        raise ValueError(f"no such placement: {name!r}")
    return AnySelector(nodes)
