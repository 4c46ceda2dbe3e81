"""What it costs a job of an application to be ended and started again at another size.

Two means, of the last few restarts: how long none of it ran, from the order to end it to the first
moment at which all of its new processes did, and how much of its work it had to do again, as far
as its program tells its progress. What was never seen counts as `UNSEEN_NS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

UNSEEN_NS = 60_000_000_000
"""Of an application that was never restarted."""
WEIGHED = 8
"""A mean is that of about so many restarts: a program may get larger data, or a faster disk."""
APPS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCost:
    """Means over ``count`` restarts; ``again_ns`` is 0 where no program has told its progress."""

    count: int = 0
    stall_ns: int = 0
    again_ns: int = 0
    again_count: int = 0

    @property
    def expected_ns(self) -> int:
        """What the next restart will cost, all in all."""
        return self.stall_ns + self.again_ns if self.count else UNSEEN_NS + self.again_ns

    def stalled(self, stall_ns: int) -> RestartCost:
        """With one more restart, in which nothing of the job ran for so long."""
        mean_ns = _nearer(self.stall_ns, stall_ns, self.count)
        return replace(self, count=self.count + 1, stall_ns=mean_ns)

    def done_again(self, again_ns: int) -> RestartCost:
        """With what one more restart has cost in work that was done already."""
        mean_ns = _nearer(self.again_ns, again_ns, self.again_count)
        return replace(self, again_count=self.again_count + 1, again_ns=mean_ns)


def _nearer(mean_ns: int, seen_ns: int, count: int) -> int:
    return mean_ns + (seen_ns - mean_ns) // min(count + 1, WEIGHED)


def learnt(
    costs: dict[str, RestartCost], key: str, *, stall_ns: int | None = None, again_ns: int = 0
) -> None:
    """Takes in one restart of an application; ``stall_ns`` None: what it had to do again."""
    if key not in costs and len(costs) >= APPS_MAX:
        del costs[next(iter(costs))]
    before = costs.get(key, RestartCost())
    costs[key] = before.done_again(again_ns) if stall_ns is None else before.stalled(stall_ns)


def expected_ns(costs: Mapping[str, RestartCost], key: str) -> int:
    """What a restart of a job of an application is expected to cost."""
    return costs.get(key, RestartCost()).expected_ns
