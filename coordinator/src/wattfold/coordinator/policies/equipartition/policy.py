"""Equipartition: running and arriving jobs share nodes and watts equally.

L. V. Kale, S. Kumar, J. DeSouza: A Malleable-Job System for Timeshared Parallel Machines. CCGrid
2002, section 4. When a job arrives, every running job and the new job get their minimum sizes. The
rest is shared equally, up to the maximum of each job (`equal_shares`). A job whose minimum size
does not fit waits. All waiting jobs are tried again when a job ends, and each job that fits starts,
regardless of arrival order. With ``order = "fifo"`` no job starts before an earlier job. Jobs that
cannot change keep their size. The driver shrinks jobs before others start or grow.

Beyond the paper:

- *Power.* All nodes have one level. With ``power = "lower"`` it is the highest level for the sizes
  within the budget. With ``"fewer"`` only as many nodes are shared as the budget supports at the
  maximum level.
- *Due dates* (``due = "yes"``). Before the rest is shared, jobs with a due date get the smallest
  size that meets it at full power, the earliest date first.
- *Priorities* (``weights = "priority"``). The rest is shared in proportion to the priorities.
- *Cores.* Jobs with sizes in cores share the cores of a node, which then has no job on whole nodes.
  An arriving job goes to the node on which it gets most cores. Other jobs share the whole nodes.
- *Units.* Jobs with sizes in units start at their minimum size and keep it. They use cores that
  jobs on cores leave beyond their minimum sizes.
- *Pause* (``interval_s``). A job must not grow for this time after a resize.
- *Cost of a resize* (``costs = "weigh"``). A job does not grow if the growth would save no more
  time than the learnt stall of the resize; other jobs share these resources. It still shrinks when
  others need its resources.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.core.model.plan import Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.held_counts import HeldCounts, earliest_ns, is_counted
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.equipartition.settings import EquipartitionSettings
from wattfold.coordinator.policies.equipartition.shared_nodes import EquipartitionJob, SharedNodes
from wattfold.coordinator.policies.port import (
    Change,
    Decision,
    Held,
    JobInformation,
    NodeRequirements,
    Reason,
    Scheduled,
    Scheduler,
    Site,
    SizeRequest,
)

BEHIND = "an earlier job must start first"

Place = tuple[float, int, int]
"""Sort key of the queue: priority, submission, number."""


@dataclass(frozen=True, slots=True)
class Equipartition(Scheduled):
    """The policy with its settings."""

    settings: EquipartitionSettings = EquipartitionSettings()  # noqa: RUF009 - immutable

    @property
    def name(self) -> str:
        """``equipartition``."""
        return "equipartition"

    @property
    def resizes(self) -> bool:
        """Return True: arriving jobs shrink the others."""
        return True

    @property
    def chooses_caps(self) -> bool:
        """Return True: all jobs have one level, which follows the budget."""
        return True

    @property
    def recaps(self) -> bool:
        """Return True: the caps of running jobs follow the budget."""
        return True

    def fallback(self) -> Policy | None:
        """Start jobs in order; this code is independent of the policy."""
        return InTurn()

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return EquipartitionScheduler(self.settings)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Return the plan of a new scheduler for this snapshot."""
        return planned(self, snapshot, now_ns, deadline_s)


class EquipartitionScheduler(Scheduler):
    """A scheduler of this policy for the service and for pools. It decides once per instant."""

    each_event = False
    weighs_all = True
    revisit_ns = 0
    solver_ns: Sequence[int] = ()

    name = "equipartition"

    def __init__(self, settings: EquipartitionSettings) -> None:
        self._settings, self.patience = settings, settings.patience
        self._held_counts = HeldCounts(settings.patience) if settings.patience else None
        """Holds for impatient jobs if nodes are counted; otherwise the driver makes them."""
        self._jobs: JobInformation
        self._site = Site(count=0, spendable_uw=0, kind=None, most_uw=0)
        self._asks: dict[int, SizeRequest] = {}
        self._running: dict[int, None] = {}
        self._queue: list[Place] = []
        """Waiting jobs, in order."""
        self._places: dict[int, Place] = {}
        self._leasts: Counter[int] = Counter()
        """Minimum sizes of the jobs that wait for whole nodes."""
        self._resized_ns: dict[int, int] = {}
        """Times of the last resizes of running jobs, if the driver does not report them."""
        self._shared_nodes: SharedNodes | None = None
        self._lacking: Mapping[int, Reason] = {}
        self._blocked: Place | None = None
        """No job behind this place starts."""
        self._told: dict[int, Reason] = {}

    # Notifications.

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""
        self._jobs = jobs

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        self._site = site

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or returns to it."""
        self.change(job, now_ns)

    def change(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job is new, or has changed."""
        self._leave(job)
        ask = self._asks[job] = self._jobs.ask(job)
        if self._jobs.held(job) is not None:
            self._running[job] = None
            return
        self._running.pop(job, None)
        if self._held_counts is not None and is_counted(self._site):
            self._held_counts.waits(job, self._jobs, self._site)
        place = self._places[job] = (-ask.priority, ask.submitted_ns, job)
        insort(self._queue, place)
        if ask.unit is SizeUnit.NODES:
            self._leasts[ask.least] += 1

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended, or no longer waits."""
        self._leave(job)
        if self._held_counts is not None:
            self._held_counts.waits_no_more(job)
        for part in (self._asks, self._running, self._resized_ns, self._told):
            part.pop(job, None)

    def _leave(self, job: int) -> None:
        """Remove a job from the queue."""
        place = self._places.pop(job, None)
        if place is None:
            return
        del self._queue[bisect_left(self._queue, place)]
        ask = self._asks[job]
        if ask.unit is SizeUnit.NODES:
            self._leasts[ask.least] -= 1
            if not self._leasts[ask.least]:
                del self._leasts[ask.least]

    # Results.

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason has changed."""
        before, named = self._told, set(jobs)
        self._told = {job: self._reason(job) for *_, job in self._queue}
        return [r for job, r in self._told.items() if job in named or before.get(job) != r]

    def _reason(self, job: int) -> Reason:
        assert self._shared_nodes is not None, "asked after a decision"
        if job in self._lacking:
            return self._lacking[job]
        if self._blocked is not None and self._places[job] > self._blocked:
            return Reason(job, BEHIND)
        return self._shared_nodes.why(job, self._asks[job])

    def decide(self, now_ns: int) -> Decision:
        """Return starts, and running jobs with a new size or level."""
        counts = self._held_counts
        if counts is None or not is_counted(self._site):
            return Decision(self._shared(now_ns))
        for job in counts.taken():
            self.change(job, now_ns)
        running, resized_ns = list(self._running), dict(self._resized_ns)
        changes = self._shared(now_ns)
        kept, withdrawn = counts.decided(changes, running, self._jobs, self._site, now_ns)
        for job in withdrawn:
            self._resized_ns.pop(job, None)
            if job in resized_ns:
                self._resized_ns[job] = resized_ns[job]
            self.change(job, now_ns)
        self.revisit_ns = earliest_ns(self.revisit_ns, counts.next_ns(now_ns))
        return Decision(kept)

    def _shared(self, now_ns: int) -> Sequence[Change]:
        """Decide by equal shares."""
        held = {job: self._held(job) for job in self._running}
        ground = self._shared_nodes = SharedNodes(
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
        changes: list[Change] = []
        for one, size in zip(ground.sharers, sizes, strict=True):
            cap_uw = one.ask.cap_uw or level_uw
            now = held.get(one.job)
            if now is not None and (now.size, now.cap_uw) == (size, cap_uw) and not ground.named:
                continue
            if now is not None and now.size != size and not ground.named:
                self._resized_ns[one.job] = now_ns
            changes.append(
                Change(
                    one.job,
                    size,
                    cap_uw,
                    requirements=NodeRequirements(sizes=tuple(range(one.least, size + 1))),
                    among=one.places or ((one.on,) if one.on else ()),
                )
            )
        for job in started:
            self._leave(job)
            self._running[job] = None
        return changes

    def _sizes(self, shared_nodes: SharedNodes, now_ns: int) -> list[int]:
        """Return equal shares; jobs for which a resize is not worthwhile keep their size."""
        while True:
            sizes = shared_nodes.sizes(by_priority=self._settings.weights == "priority")
            pairs = zip(shared_nodes.sharers, sizes, strict=True)
            staying = [one for one, size in pairs if self._not_worth(one, size, now_ns)]
            if not staying:
                return sizes
            for one in staying:
                one.greatest = max(one.least, one.size)

    def _not_worth(self, sharing_job: EquipartitionJob, size: int, now_ns: int) -> bool:
        """Return whether a running job would save no more time by growing than the resize costs."""
        price_s = sharing_job.ask.resize_s if self._settings.costs == "weigh" else 0.0
        if not price_s or not sharing_job.size or size <= max(sharing_job.size, sharing_job.least):
            return False
        now_s, then_s = self._times_s(sharing_job, [sharing_job.size, size])
        return (1.0 - self._jobs.done(sharing_job.job, now_ns)) * (now_s - then_s) <= price_s

    def _times_s(self, sharing_job: EquipartitionJob, sizes: Sequence[int]) -> list[float]:
        """Return the times of the whole job at sizes, at full power or its own level, seconds."""
        kind = self._site.kind or self._site.nodes[0].spec.kind
        profile = self._jobs.profile(sharing_job.job, kind)
        cap_w = w_from_uw(sharing_job.ask.cap_uw or kind.most_uw)
        return [profile.time_s(size, cap_w) for size in sizes]

    def _held(self, job: int) -> Held:
        held = self._jobs.held(job)
        assert held is not None, "it runs"
        return held

    def _sharer(self, job: int, held: Held, now_ns: int) -> EquipartitionJob:
        """Return a running job as a sharer, with its permitted sizes now."""
        ask, size = self._asks[job], held.size
        least = greatest = size
        if ask.resizable:
            least, greatest = min(ask.least, size), max(ask.greatest, min(ask.least, size))
            if now_ns < self._locked_ns(job, held):
                greatest = max(least, min(size, greatest))
        return EquipartitionJob(job=job, ask=ask, least=least, greatest=greatest, size=size)

    def _locked_ns(self, job: int, held: Held) -> int:
        """Return the time until which a job must not grow; 0 = it may grow."""
        resized_ns = max(held.resized_ns, self._resized_ns.get(job, -1))
        pause_ns = self._settings.interval_ns
        return resized_ns + pause_ns if pause_ns and resized_ns >= 0 else 0

    def _revisit(self, held: dict[int, Held], now_ns: int) -> None:
        unlocks = (self._locked_ns(job, one) for job, one in held.items())
        self.revisit_ns = min((at for at in unlocks if at > now_ns), default=0)

    def _admit(self, shared_nodes: SharedNodes) -> list[int]:
        """Admit waiting jobs, in order, if their minimum sizes fit next to those of all others."""
        waiting = [job for *_, job in self._queue]
        self._lacking, self._blocked = shared_nodes.lacking(waiting, self._asks), None
        started: list[int] = []
        left, least = shared_nodes.left_whole, min(self._leasts, default=0)
        cores = sum(self._leasts.values()) < len(waiting)
        for job in waiting:
            if left < least and not cores:
                return started
            if job in self._lacking:
                continue
            ask = self._asks[job]
            if ask.unit is not SizeUnit.NODES or ask.least <= left:
                one = EquipartitionJob(
                    job=job, ask=ask, least=ask.least, greatest=ask.greatest, size=0
                )
                if shared_nodes.admit(one):
                    started.append(job)
                    left = shared_nodes.left_whole
                    continue
            if self._settings.order == "fifo" and not shared_nodes.why(job, ask).never:
                self._blocked = self._places[job]
                break
        return started

    def _due(
        self, parts: Sequence[EquipartitionJob], now_ns: int
    ) -> list[tuple[EquipartitionJob, int]]:
        """Return jobs with a due date, the earliest first, and the smallest size that meets it."""
        needed: list[tuple[EquipartitionJob, int]] = []
        for part in sorted(parts, key=lambda part: part.ask.due_ns):
            left_s = (part.ask.due_ns - now_ns) / NS_PER_S
            if left_s <= 0:
                continue  # The due date has passed, or there is none (-1).
            work = 1.0 - (self._jobs.done(part.job, now_ns) if part.size else 0.0)
            sizes = range(part.least, part.greatest + 1)
            all_s = zip(sizes, self._times_s(part, sizes), strict=True)
            meets = [size for size, one_s in all_s if one_s * work <= left_s]
            needed.append((part, meets[0] if meets else part.greatest))
        return needed


def _turn(held: Held, job: int) -> tuple[bool, int, int]:
    """Sort key of running jobs: time of start."""
    return held.started_ns < 0, held.started_ns, job
