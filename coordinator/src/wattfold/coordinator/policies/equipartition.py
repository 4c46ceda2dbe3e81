"""Equipartition at work: all that run, and who comes, share nodes and watts equally.

L. V. Kale, S. Kumar, J. DeSouza: A Malleable-Job System for Timeshared Parallel Machines. CCGrid
2002, section 4. When a job comes every running one and the new one get the least they ask for; what
is left is shared equally, to the greatest of each (`equal_shares`). A job whose least size does not
fit waits, and is tried again, with all that wait, when one ends: who fits starts, whoever came
first (``order = "fifo"``: nobody starts before one that came earlier). Jobs that cannot change keep
the size they have. The driver lets jobs shrink before others start or grow.

Beyond the paper:

- *Power.* All nodes have one level, the greatest that feeds the sizes (``power = "lower"``), or
  only so many nodes are shared as the budget feeds at the greatest level (``"fewer"``).
- *Due dates* (``due = "yes"``). Before the rest is shared, jobs with a due date get the least size
  that meets it at full power, the earliest date first.
- *Priorities* (``weights = "priority"``): what is left is shared in their ratio.
- *Cores.* Jobs that count cores share those of one node, which then has no job on whole nodes. Who
  comes goes where it gets most; whole nodes are shared among the others.
- *Units.* Jobs that count units start at their least size, on what others on cores leave of nodes
  over their least sizes, and keep it.
- *A pause* (``interval_s``): a job that was resized less than this ago grows no more yet.
- *What a change costs* (``costs = "weigh"``): a job that would save no more time on what it could
  have beside its present size than the change stalls it, as learnt, does not grow; the others share
  that. It gives up what others need all the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.core.plan import Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.equipartition_ground import Ground, Sharer
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import (
    Ask,
    ChoosingScheduler,
    Decision,
    Found,
    Held,
    Jobs,
    NamedScheduler,
    Placing,
    Reason,
    Scheduled,
    Site,
)

BEHIND = "an earlier job must start first"
DEADLINE_S = 20.0
"""Of a decision, where the driver says nothing."""

Place = tuple[float, int, int]
"""Order of the queue: priority, submission, number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipartition(Scheduled):
    """Settings; see above. ``interval_ns`` 0 = jobs may be resized at any time."""

    order: str = "first-fit"
    power: str = "lower"
    due: bool = False
    by_priority: bool = False
    interval_ns: int = 0
    weigh_costs: bool = True

    @property
    def name(self) -> str:
        """``equipartition``."""
        return "equipartition"

    @property
    def resizes(self) -> bool:
        """Whoever comes makes the others smaller."""
        return True

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        return EquipartitionScheduler(self)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """The plan of a scheduler that is made for this snapshot."""
        return planned(self, snapshot, now_ns, deadline_s)


class EquipartitionScheduler(ChoosingScheduler):
    """The policy at work, in the service and on pools. Decides once for all of an instant."""

    each_event = False
    revisit_ns = 0
    solver_ns: Sequence[int] = ()

    def __init__(self, settings: Equipartition) -> None:
        self._settings = settings
        self.deadline_s = DEADLINE_S
        self._jobs: Jobs
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._asks: dict[int, Ask] = {}
        self._running: dict[int, None] = {}
        self._queue: list[Place] = []
        """In order."""
        self._places: dict[int, Place] = {}
        self._leasts: Counter[int] = Counter()
        """Least sizes of those that wait for whole nodes."""
        self._resized_ns: dict[int, int] = {}
        """When it last gave a running job another size, where the driver does not say."""
        self._ground: Ground | None = None
        self._lacking: Mapping[int, Reason] = {}
        self._blocked: Place | None = None
        """Nobody behind it starts."""
        self._told: dict[int, Reason] = {}
        self._placings: dict[int, Placing] = {}
        self._nodes: dict[int, tuple[NodeId, ...]] = {}

    @property
    def name(self) -> str:
        """``equipartition``."""
        return self._settings.name

    @property
    def found(self) -> Found:
        """Nothing is searched for."""
        return Found()

    # What it is told.

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""
        self._jobs = jobs

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        self._site = site

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or comes back to it."""
        self.change(job, now_ns)

    def change(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job is new, or other than it was."""
        self._leave(job)
        ask = self._asks[job] = self._jobs.ask(job)
        if self._jobs.held(job) is not None:
            self._running[job] = None
            return
        self._running.pop(job, None)
        place = self._places[job] = (-ask.priority, ask.submitted_ns, job)
        insort(self._queue, place)
        if ask.unit is SizeUnit.NODES:
            self._leasts[ask.least] += 1

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or waits no more."""
        self._leave(job)
        for part in (self._asks, self._running, self._resized_ns, self._told):
            part.pop(job, None)

    def _leave(self, job: int) -> None:
        """It waits no more."""
        place = self._places.pop(job, None)
        if place is None:
            return
        del self._queue[bisect_left(self._queue, place)]
        ask = self._asks[job]
        if ask.unit is SizeUnit.NODES:
            self._leasts[ask.least] -= 1
            if not self._leasts[ask.least]:
                del self._leasts[ask.least]

    # What it answers.

    def placing(self, job: int) -> Placing:
        """How a job of the last decision is to be put on nodes."""
        return self._placings[job]

    def nodes(self, job: int) -> Sequence[NodeId]:
        """The node whose cores it is to share; empty = any."""
        return self._nodes[job]

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why these jobs wait and all whose reason is another since the last call."""
        before, named = self._told, set(jobs)
        self._told = {job: self._reason(job) for *_, job in self._queue}
        return [r for job, r in self._told.items() if job in named or before.get(job) != r]

    def _reason(self, job: int) -> Reason:
        assert self._ground is not None, "asked after a decision"
        if job in self._lacking:
            return self._lacking[job]
        if self._blocked is not None and self._places[job] > self._blocked:
            return Reason(job, BEHIND)
        return self._ground.why(job, self._asks[job])

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, and running jobs whose size or level changes."""
        self._placings, self._nodes = {}, {}
        held = {job: self._held(job) for job in self._running}
        ground = self._ground = Ground(
            self._site, self._jobs, fewer=self._settings.power == "fewer"
        )
        for job in sorted(held, key=lambda job: _turn(held[job], job)):
            if held[job].movable:
                ground.add(self._sharer(job, held[job], now_ns))
        started = self._admit(ground)
        if self._settings.due:
            ground.meet(self._due(ground.sharers, now_ns))
        sizes = self._sizes(ground, now_ns)
        level_uw = ground.level_uw(sizes)
        self._revisit(held, now_ns)
        decisions: list[Decision] = []
        for one, size in zip(ground.sharers, sizes, strict=True):
            cap_uw = one.ask.cap_uw or level_uw
            now = held.get(one.job)
            if now is not None and (now.size, now.cap_uw) == (size, cap_uw) and not ground.named:
                continue
            if now is not None and now.size != size and not ground.named:
                self._resized_ns[one.job] = now_ns
            self._placings[one.job] = Placing(sizes=tuple(range(one.least, size + 1)))
            self._nodes[one.job] = one.places or ((one.on,) if one.on else ())
            decisions.append((one.job, size, cap_uw))
        for job in started:
            self._leave(job)
            self._running[job] = None
        return decisions

    def _sizes(self, ground: Ground, now_ns: int) -> list[int]:
        """Equal parts; those for which their part is not worth a change keep what they have."""
        while True:
            sizes = ground.sizes(by_priority=self._settings.by_priority)
            pairs = zip(ground.sharers, sizes, strict=True)
            staying = [one for one, size in pairs if self._not_worth(one, size, now_ns)]
            if not staying:
                return sizes
            for one in staying:
                one.greatest = max(one.least, one.size)

    def _not_worth(self, one: Sharer, size: int, now_ns: int) -> bool:
        """Whether a running job would save no more by growing than the change costs it."""
        price_s = one.ask.resize_s if self._settings.weigh_costs else 0.0
        if not price_s or not one.size or size <= max(one.size, one.least):
            return False
        now_s, then_s = self._times_s(one, [one.size, size])
        return (1.0 - self._jobs.done(one.job, now_ns)) * (now_s - then_s) <= price_s

    def _times_s(self, one: Sharer, sizes: Sequence[int]) -> list[float]:
        """How long all of a job takes at sizes, at full power or at its own level, seconds."""
        kind = self._site.kind or self._site.nodes[0].spec.kind
        profile = self._jobs.profile(one.job, kind)
        cap_w = w_from_uw(one.ask.cap_uw or kind.most_uw)
        return [profile.time_s(size, cap_w) for size in sizes]

    def _held(self, job: int) -> Held:
        held = self._jobs.held(job)
        assert held is not None, "it runs"
        return held

    def _sharer(self, job: int, held: Held, now_ns: int) -> Sharer:
        """A running job among those that share, with the sizes it may have now."""
        ask, size = self._asks[job], held.size
        least = greatest = size
        if ask.resizable:
            least, greatest = min(ask.least, size), max(ask.greatest, min(ask.least, size))
            if now_ns < self._locked_ns(job, held):
                greatest = max(least, min(size, greatest))
        return Sharer(job=job, ask=ask, least=least, greatest=greatest, size=size)

    def _locked_ns(self, job: int, held: Held) -> int:
        """Until when a job grows no more; 0 = it may."""
        resized_ns = max(held.resized_ns, self._resized_ns.get(job, -1))
        pause_ns = self._settings.interval_ns
        return resized_ns + pause_ns if pause_ns and resized_ns >= 0 else 0

    def _revisit(self, held: dict[int, Held], now_ns: int) -> None:
        unlocks = (self._locked_ns(job, one) for job, one in held.items())
        self.revisit_ns = min((at for at in unlocks if at > now_ns), default=0)

    def _admit(self, ground: Ground) -> list[int]:
        """Takes in those that wait, in order, whose least sizes fit beside those of all others."""
        waiting = [job for *_, job in self._queue]
        self._lacking, self._blocked = ground.lacking(waiting, self._asks), None
        started: list[int] = []
        left, least = ground.left_whole, min(self._leasts, default=0)
        cores = sum(self._leasts.values()) < len(waiting)
        for job in waiting:
            if left < least and not cores:
                return started
            if job in self._lacking:
                continue
            ask = self._asks[job]
            if ask.unit is not SizeUnit.NODES or ask.least <= left:
                one = Sharer(job=job, ask=ask, least=ask.least, greatest=ask.greatest, size=0)
                if ground.admit(one):
                    started.append(job)
                    left = ground.left_whole
                    continue
            if self._settings.order == "fifo" and not ground.why(job, ask).never:
                self._blocked = self._places[job]
                break
        return started

    def _due(self, parts: Sequence[Sharer], now_ns: int) -> list[tuple[Sharer, int]]:
        """Jobs with a due date, the earliest first, and the least size that meets it."""
        needed: list[tuple[Sharer, int]] = []
        for part in sorted(parts, key=lambda part: part.ask.due_ns):
            left_s = (part.ask.due_ns - now_ns) / NS_PER_S
            if left_s <= 0:
                continue  # It is over, or there is none: -1.
            work = 1.0 - (self._jobs.done(part.job, now_ns) if part.size else 0.0)
            sizes = range(part.least, part.greatest + 1)
            all_s = zip(sizes, self._times_s(part, sizes), strict=True)
            meets = [size for size, one_s in all_s if one_s * work <= left_s]
            needed.append((part, meets[0] if meets else part.greatest))
        return needed


def _turn(held: Held, job: int) -> tuple[bool, int, int]:
    """Order among those that run: that of their starts."""
    return held.started_ns < 0, held.started_ns, job
