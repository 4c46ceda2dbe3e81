"""What it costs a job of an application to change its size, in the way that it does, as learnt.

Means of the last few changes, for each application, unit of size and way:

- *stalled*: how long the program got nowhere. Of a restart from the order to end it to the first
  moment at which all of its new processes ran; of a processor map while objects moved, as the
  program says, else all of the time until the map was in force; on cores alone it works on.
- *again*: work that it had to do once more after a restart, as far as it tells its progress.
- *moved*: bytes of objects that went to another processor, as far as the program says; of a
  restart those of the snapshot.
- *took*: from the order until the new size was in force, whether it worked meanwhile or not.

What was never seen counts as `UNSEEN_NS` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wattfold.coordinator.core.job import JobSpec, ResizeMode
from wattfold.coordinator.models.pass_model import SizeUnit

UNSEEN_NS: Mapping[ResizeMode, int] = {
    ResizeMode.RESTART: 60_000_000_000,
    ResizeMode.REBUILD: 2_000_000_000,
    ResizeMode.MAP: 100_000_000,
}
"""Of an application of which nothing was seen yet; on cores alone nothing."""
WEIGHED = 8
"""A mean is that of about so many changes: a program may get larger data, or a faster disk."""
KEPT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeCost:
    """Means over ``count`` changes; ``again_ns`` is 0 where no program has told its progress."""

    count: int = 0
    stall_ns: int = 0
    again_ns: int = 0
    again_count: int = 0
    took_ns: int = 0
    moved_bytes: int = 0
    moved_count: int = 0
    """Of how many changes the bytes are known."""

    def stalled(self, stall_ns: int, took_ns: int, moved_bytes: int = -1) -> ResizeCost:
        """With one more change, in which it got nowhere for so long; bytes -1 = not known."""
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
        """With what one more restart has cost in work that was done already."""
        mean_ns = _nearer(self.again_ns, again_ns, self.again_count)
        return replace(self, again_count=self.again_count + 1, again_ns=mean_ns)


def _nearer(mean: int, seen: int, count: int) -> int:
    return mean + (seen - mean) // min(count + 1, WEIGHED)


Costs = dict[str, ResizeCost]
"""By `cost_key`."""


def cost_key(app: str, unit: SizeUnit, mode: ResizeMode) -> str:
    """Under which a cost is kept. Restarts are kept as before there were costs of other ways."""
    known = f"{app}/{unit.value}"
    return known if mode is ResizeMode.RESTART else f"{known}/{mode.value}"


def key_of(spec: JobSpec, mode: ResizeMode | None = None) -> str:
    """Where the cost of a job is kept: of its way, or of a restart that it has all the same."""
    return cost_key(spec.app, spec.unit, mode or spec.mode)


def app_of(key: str) -> str:
    """The application of a key; no name has a slash."""
    return key.partition("/")[0]


def known_of(costs: Mapping[str, ResizeCost], app: str) -> list[tuple[SizeUnit, ResizeMode, str]]:
    """What is known of an application: units and ways, each with its key."""
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
    """Takes in one change of size."""
    key = key_of(spec, mode)
    _keep(costs, key, costs.get(key, ResizeCost()).stalled(stall_ns, took_ns, moved_bytes))


def learn_again(costs: Costs, spec: JobSpec, again_ns: int) -> None:
    """Takes in what a restart has cost in work done again."""
    key = key_of(spec, ResizeMode.RESTART)
    _keep(costs, key, costs.get(key, ResizeCost()).done_again(again_ns))


def _keep(costs: Costs, key: str, cost: ResizeCost) -> None:
    if key not in costs and len(costs) >= KEPT_MAX:
        del costs[next(iter(costs))]
    costs[key] = cost


def expected_ns(
    costs: Mapping[str, ResizeCost], spec: JobSpec, mode: ResizeMode | None = None
) -> int:
    """What the next change of size, or a restart, is expected to cost such a job, all in all."""
    cost = costs.get(key_of(spec, mode), ResizeCost())
    return (cost.stall_ns if cost.count else UNSEEN_NS.get(mode or spec.mode, 0)) + cost.again_ns
