"""Any free nodes: a stack, for machines whose network does not care who sits where.

The nodes given back last are taken first. Every call is a slice of a list, so that a simulation of
a million jobs hardly feels it; for that, nodes given back are not checked.
"""

from __future__ import annotations

from wattfold.coordinator.policies.node_selection.selector import check_released, check_wanted


class AnySelector:
    """Free nodes as a stack; hands out lists."""

    __slots__ = ("_stack",)

    def __init__(self, nodes: int) -> None:
        self._stack = list(range(nodes - 1, -1, -1))

    @property
    def free(self) -> int:
        """Number of free nodes."""
        return len(self._stack)

    def take(self, count: int) -> list[int]:
        """The nodes given back last. Raises NotEnoughFreeNodes."""
        stack = self._stack
        left = len(stack) - count
        if left < 0 or count < 0:
            check_wanted(count, len(stack))
        taken = stack[left:]
        del stack[left:]
        return taken

    def grow(self, held: list[int], count: int) -> list[int]:  # noqa: ARG002
        """As `take`: where the others are does not matter."""
        return self.take(count)

    def shrink(self, held: list[int], count: int) -> tuple[list[int], list[int]]:
        """Releases the last nodes of the list. Raises ValueError if there are fewer."""
        check_released(count, len(held))
        left = len(held) - count
        released = held[left:]
        self._stack += released
        return held[:left], released

    def give_back(self, nodes: list[int]) -> None:
        """A job's nodes are free again; nobody checks that they were not before."""
        self._stack += nodes
