"""How long a program is waited for: its deadline counts the time in which it could run.

On a node with more runnable threads than cores, or under a cap that slows its jobs, a program that
obeys may not have had a turn. That is not its refusal; but there is a limit, as others wait for its
cores.
"""

from __future__ import annotations

from dataclasses import dataclass

EXTRA_NS_MAX = 1_000_000_000
"""Less than who asks for a mask waits beyond the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """A deadline, and as much again for time that was lost, up to a second."""

    began_ns: int
    deadline_ns: int

    def until_ns(self, lost_ns: int) -> int:
        """When it is late, after so much time in which it could not run."""
        extra_ns = min(max(lost_ns, 0), self.deadline_ns, EXTRA_NS_MAX)
        return self.began_ns + self.deadline_ns + extra_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What the kernel tells of a thread: its state, time it waited for a core, turns it had."""

    state: str
    waited_ns: int
    turns: int


def lost_ns(before: Turns, now: Turns, elapsed_ns: int) -> int:
    """The time of a thread between two looks in which it was ready and did not run, or was stopped.

    The kernel counts a wait when it is over; one that lasts is seen by no turn since. Since when a
    thread has been stopped it does not tell: that counts as all the time.
    """
    waits = now.state == "R" and now.turns == before.turns
    if waits or now.state in "Tt":
        return elapsed_ns
    return min(elapsed_ns, max(0, now.waited_ns - before.waited_ns))
