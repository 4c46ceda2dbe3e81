"""Placement on any free nodes: a stack, for machines on which the location does not matter.

The last released nodes are taken first. Every call is a slice of a list, so the cost in a
simulation of a million jobs is small. For the same reason, released nodes are not checked.
"""

from __future__ import annotations

from wattfold.coordinator.policies.placement.selector import check_released, check_wanted


class AnySelector:
    """Free nodes as a stack; it returns lists."""

    __slots__ = ("_stack",)

    def __init__(self, nodes: int) -> None:
        self._stack = list(range(nodes - 1, -1, -1))

    @property
    def free(self) -> int:
        """Number of free nodes."""
        return len(self._stack)

    def take(self, count: int) -> list[int]:
        """Take the last released nodes. Raises NotEnoughFreeNodes."""
        stack = self._stack
        left = len(stack) - count
        if left < 0 or count < 0:
            check_wanted(count, len(stack))
        taken = stack[left:]
        del stack[left:]
        return taken

    def grow(self, held: list[int], count: int) -> list[int]:  # noqa: ARG002
        """Same as `take`: the other nodes of the job do not matter."""
        return self.take(count)

    def shrink(self, held: list[int], count: int) -> tuple[list[int], list[int]]:
        """Release the last nodes of the list. Raises ValueError if there are fewer."""
        check_released(count, len(held))
        left = len(held) - count
        released = held[left:]
        self._stack += released
        return held[:left], released

    def give_back(self, nodes: list[int]) -> None:
        """Release the nodes of a job, without checking that they were taken."""
        self._stack += nodes
