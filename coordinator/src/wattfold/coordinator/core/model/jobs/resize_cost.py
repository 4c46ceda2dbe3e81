"""Learnt cost of a resize of a job, by application, unit of size and resize mode.

Each value is a mean over the last few resizes:

- *stalled*: time without progress. A restart counts from its order until all new processes run. A
  processor map counts the time in which objects moved, as reported by the program. Without a report
  it counts until the map is in force. A change of cores alone has no stall.
- *again*: work that was repeated after a restart, if the program reports its progress.
- *moved*: bytes of objects that moved to another processor, as reported by the program. For a
  restart: size of the snapshot.
- *took*: time from the order until the new size was in force, including progress meanwhile.

Resizes that were never measured cost `UNSEEN_NS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from wattfold.coordinator.core.model.jobs.spec import JobSpec, ResizeMode
from wattfold.coordinator.models.pass_model import SizeUnit

UNSEEN_NS: Mapping[ResizeMode, int] = {
    ResizeMode.RESTART: 60_000_000_000,
    ResizeMode.REBUILD: 2_000_000_000,
    ResizeMode.MAP: 100_000_000,
}
"""Assumed cost for an application without measurements; 0 for changes of cores alone."""
WEIGHED = 8
"""Number of resizes in a mean, about: a program may get larger data, or a faster disk."""
KEPT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCost:
    """Means over ``count`` resizes; ``again_ns`` is 0 if no program reported its progress."""

    count: int = 0
    stall_ns: int = 0
    again_ns: int = 0
    again_count: int = 0
    took_ns: int = 0
    moved_bytes: int = 0
    moved_count: int = 0
    """Number of resizes with known bytes."""

    def stalled(self, stall_ns: int, took_ns: int, moved_bytes: int = -1) -> ResizeCost:
        """Return the means with another resize and its stall time; bytes -1 = unknown."""
        seen = replace(
            self,
            count=self.count + 1,
            stall_ns=_nearer(self.stall_ns, stall_ns, self.count),
            took_ns=_nearer(self.took_ns, took_ns, self.count),
        )
        if moved_bytes < 0:
            return seen
        mean = _nearer(self.moved_bytes, moved_bytes, self.moved_count)
        return replace(seen, moved_count=self.moved_count + 1, moved_bytes=mean)

    def done_again(self, again_ns: int) -> ResizeCost:
        """Return the means with the repeated work of another restart."""
        mean_ns = _nearer(self.again_ns, again_ns, self.again_count)
        return replace(self, again_count=self.again_count + 1, again_ns=mean_ns)


def _nearer(mean: int, seen: int, count: int) -> int:
    return mean + (seen - mean) // min(count + 1, WEIGHED)


Costs = dict[str, ResizeCost]
"""Costs by `cost_key`."""


@lru_cache(maxsize=4096)
def cost_key(app: str, unit: SizeUnit, mode: ResizeMode) -> str:
    """Return the key of a cost. Restarts have keys without a mode, as in older journals."""
    known = f"{app}/{unit.value}"
    return known if mode is ResizeMode.RESTART else f"{known}/{mode.value}"


def key_of(spec: JobSpec, mode: ResizeMode | None = None) -> str:
    """Return the key of the cost of a job, for its own mode or the given mode."""
    return cost_key(spec.app, spec.unit, mode or spec.mode)


def app_of(key: str) -> str:
    """Return the application of a key; application names contain no slash."""
    return key.partition("/")[0]


def known_of(costs: Mapping[str, ResizeCost], app: str) -> list[tuple[SizeUnit, ResizeMode, str]]:
    """Return the known costs of an application as unit, mode and key."""
    ways = [(unit, mode, cost_key(app, unit, mode)) for unit in SizeUnit for mode in ResizeMode]
    return [way for way in ways if way[-1] in costs]


def learn_stall(
    costs: Costs,
    spec: JobSpec,
    mode: ResizeMode | None = None,
    *,
    stall_ns: int,
    took_ns: int,
    moved_bytes: int = -1,
) -> None:
    """Add a resize to the means."""
    key = key_of(spec, mode)
    _keep(costs, key, costs.get(key, ResizeCost()).stalled(stall_ns, took_ns, moved_bytes))


def learn_again(costs: Costs, spec: JobSpec, again_ns: int) -> None:
    """Add the repeated work of a restart to the means."""
    key = key_of(spec, ResizeMode.RESTART)
    _keep(costs, key, costs.get(key, ResizeCost()).done_again(again_ns))


def _keep(costs: Costs, key: str, cost: ResizeCost) -> None:
    if key not in costs and len(costs) >= KEPT_MAX:
        del costs[next(iter(costs))]
    costs[key] = cost


def expected_ns(
    costs: Mapping[str, ResizeCost], spec: JobSpec, mode: ResizeMode | None = None
) -> int:
    """Return the expected total cost of the next resize or restart of a job."""
    cost = costs.get(key_of(spec, mode), ResizeCost())
    return (cost.stall_ns if cost.count else UNSEEN_NS.get(mode or spec.mode, 0)) + cost.again_ns


def learnt_ns(
    costs: Mapping[str, ResizeCost], spec: JobSpec, mode: ResizeMode | None = None
) -> int | None:
    """Return the measured total cost; None = no such resize of its application was measured."""
    cost = costs.get(key_of(spec, mode))
    return cost.stall_ns + cost.again_ns if cost is not None and cost.count else None
