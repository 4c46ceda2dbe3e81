"""Which nodes sleep: decided with each plan, from power, promised boots and the arrivals of jobs.

Policies plan as if every node without a job slept: idle nodes that stay awake are charged
afterwards, from what the plan leaves. So a policy may use the power of all sleeping nodes, and
knows nothing of sleep. A start on sleeping nodes becomes a wake and a wait.

Three rules choose the nodes:

1. Nodes whose idle power does not fit beside the plan fall asleep at once.
2. *Spare* nodes stay awake for jobs to come: as many as the jobs of one boot time have asked for
   together, at a quantile of the recent arrivals. Nodes beyond them fall asleep when they have been
   awake for a minimum time, which limits wear. Missing spare nodes are woken.
3. A boot begins only if its power fits, and only so many nodes boot at once.

With ``timer_ns``, nodes sleep after this idle time instead, as Slurm does with SuspendTime. Plans
then charge every node as awake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

REMEMBERED = 64
"""Arrivals from which the spare nodes are learnt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepRules:
    """Powers in microwatts, times in nanoseconds, of one class of nodes."""

    idle_uw: int
    """Charge of a node that is awake and has no job."""
    asleep_uw: int
    boot_uw: int
    boot_ns: int
    suspend_ns: int = 30_000_000_000
    boots_max: int = 16
    awake_min_ns: int = 300_000_000_000
    spare_quantile: float = 0.75
    timer_ns: int = 0
    """Idle time after which a node sleeps; 0 = decided with the plan."""

    def __post_init__(self) -> None:
        if not 0 <= self.asleep_uw <= self.idle_uw <= self.boot_uw:
            raise ValueError(
                f"a node draws {self.asleep_uw / 1e6:g} W asleep, {self.idle_uw / 1e6:g} W idle "
                f"and {self.boot_uw / 1e6:g} W in a boot; none may be below the value before it"
            )
        if min(self.boot_ns, self.boots_max) < 1 or self.suspend_ns < 0:
            raise ValueError("a boot takes time, and at least one node must be able to boot")


class IdleNodes(NamedTuple):
    """Nodes without a job that have been awake and idle since the same time."""

    since_ns: int
    awake_since_ns: int
    nodes: int


class Arrivals:
    """Recent arrivals of jobs: the nodes that the jobs of one boot time ask for together."""

    def __init__(self, boot_ns: int) -> None:
        self._boot_ns = boot_ns
        self._recent: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._sums: list[int] = []

    def add(self, now_ns: int, nodes: int) -> None:
        """Note a job that asks for this number of nodes."""
        self._recent.append((now_ns, nodes))
        self._sums = []

    def nodes(self, quantile: float) -> int:
        """Return the nodes that suffice for this share of the recent boot times."""
        if not self._recent:
            return 0
        if not self._sums:
            self._sums = sorted(self._bursts())
        return self._sums[min(int(quantile * len(self._sums)), len(self._sums) - 1)]

    def _bursts(self) -> list[int]:
        recent, sums, last, total = list(self._recent), [], 0, 0
        for at_ns, nodes in recent:
            while last < len(recent) and recent[last][0] <= at_ns + self._boot_ns:
                total += recent[last][1]
                last += 1
            sums.append(total)
            total -= nodes
        return sums


def sleepers(
    rules: SleepRules, idle: Sequence[IdleNodes], spare: int, over_uw: int, now_ns: int
) -> list[int]:
    """Return how many nodes of each group fall asleep now; the longest idle group comes first.

    ``over_uw`` is the power by which the idle nodes exceed the budget beside the plan, in
    microwatts; at most 0 if they fit.
    """
    each_uw = max(rules.idle_uw - rules.asleep_uw, 1)
    forced = -(-over_uw // each_uw) if over_uw > 0 else 0
    beyond = max(sum(one.nodes for one in idle) - spare, 0)
    found: list[int] = []
    for one in idle:
        rested = now_ns >= ready_ns(rules, one)
        count = min(max(forced, beyond if rested else 0), one.nodes)
        found.append(count)
        forced, beyond = max(forced - count, 0), max(beyond - count, 0)
    return found


def ready_ns(rules: SleepRules, idle: IdleNodes) -> int:
    """Return when nodes may fall asleep without a lack of power."""
    if rules.timer_ns:
        return idle.since_ns + rules.timer_ns
    return idle.awake_since_ns + rules.awake_min_ns


def wakes(rules: SleepRules, wanted: int, booting: int, free_uw: int, now_uw: int) -> int:
    """Return how many boots begin now, of ``wanted``.

    ``now_uw`` is the charge of such a node before its boot, which the boot replaces.
    """
    slots = max(rules.boots_max - booting, 0)
    each_uw = max(rules.boot_uw - now_uw, 1)
    return max(min(wanted, slots, free_uw // each_uw), 0)
