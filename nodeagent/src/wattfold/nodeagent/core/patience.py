"""Deadline for a program, which counts only the time in which it could run.

On a node with more runnable threads than cores, or under a cap that slows its jobs, an obedient
program may not have had a turn. This does not count as a refusal. But the extra time is limited,
because other jobs wait for its cores.
"""

from __future__ import annotations

from dataclasses import dataclass

EXTRA_NS_MAX = 1_000_000_000
"""Less than the time that the coordinator waits beyond the deadline of a mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """A deadline, extended by lost time up to its own length and at most a second."""

    began_ns: int
    deadline_ns: int

    def until_ns(self, lost_ns: int) -> int:
        """Return the time from which the program is late, after ``lost_ns`` without a turn."""
        extra_ns = min(max(lost_ns, 0), self.deadline_ns, EXTRA_NS_MAX)
        return self.began_ns + self.deadline_ns + extra_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Kernel data of a thread: its state, its waiting time for a core, and its number of turns."""

    state: str
    waited_ns: int
    turns: int


def lost_ns(before: Turns, now: Turns, elapsed_ns: int) -> int:
    """Return the time in which a thread was ready but did not run, or was stopped.

    ``before`` and ``now`` are samples, ``elapsed_ns`` the time between them. The kernel counts a
    wait when it ends. A wait in progress shows as a thread without a turn since. The kernel does
    not report since when a thread is stopped, so all the time counts.
    """
    waits = now.state == "R" and now.turns == before.turns
    if waits or now.state in "Tt":
        return elapsed_ns
    return min(elapsed_ns, max(0, now.waited_ns - before.waited_ns))
