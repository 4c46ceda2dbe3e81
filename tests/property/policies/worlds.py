"""Sites with random changes between two planning rounds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from unit.policies.snapshots import S, W, job, node, snapshot

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import NOBODY, JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile, SizeUnit

NODES = 5


@dataclass
class World:
    """Knowledge of the core. ``counted``: identical nodes, taken whole."""

    rng: random.Random
    counted: bool
    now_s: float = 10.0
    budget_w: float = 300.0
    reserved_w: float = 0.0
    views: dict[JobId, JobView] = field(default_factory=dict)
    nodes: list[NodeView] = field(default_factory=list)
    touched: dict[JobId, None] = field(default_factory=dict)
    gone: list[JobId] = field(default_factory=list)
    submitted: int = 0
    reservations: list[Reservation] = field(default_factory=list)
    preempting: int = 0
    """1: a queue preempts another; 2: in addition, a job waits for ending jobs."""

    def __post_init__(self) -> None:
        kinds = [{}] if self.counted else [{}, {"max_w": 40}, {"cores": 3}]
        self.nodes = [node(f"n{i}", **{"cores": 4, **self.rng.choice(kinds)}) for i in range(NODES)]

    @property
    def snapshot(self) -> Snapshot:
        """A snapshot of the world."""
        fixed_w = sum(n.fixed_uw for n in self.nodes) / W
        seen = snapshot(
            self.nodes,
            list(self.views.values()),
            budget_w=fixed_w + self.budget_w,
            now_s=self.now_s,
            reserved_w=self.reserved_w,
        )
        there = [one for one in self.reservations if one.end_ns > seen.now_ns]
        queues = (Queue(name="blue", preempts=("low",)),) if self.preempting else ()
        clearing = (min(self.views, default=NOBODY),) if self.preempting == 2 else ()
        return replace(seen, reservations=tuple(there), queues=queues, clearing=clearing)

    def reserve(self) -> None:
        """Reserve some nodes for a queue, for the jobs that name the reservation, or for no job."""
        rng, start_s = self.rng, self.now_s + self.rng.choice([0, 10, 100])
        name = f"r{rng.randint(0, 1)}"
        kept = [one for one in self.reservations if one.name != name]
        made = Reservation(
            name=name,
            nodes=tuple(NodeId(f"n{i}") for i in rng.sample(range(NODES), rng.randint(1, 3))),
            start_ns=round(start_s * S),
            end_ns=round((start_s + rng.choice([30, 300])) * S),
            queue=rng.choice(["", "blue"]),
            maintenance=rng.random() < 0.3,
        )
        self.reservations = [*kept, made]

    def news(self) -> tuple[Snapshot, list[JobView], list[JobId]]:
        """Return nodes, new or changed jobs, and ended jobs since the last call."""
        named = [
            view
            for job_id, view in self.views.items()
            if view.current is not None or job_id in self.touched
        ]
        gone = list(self.gone)
        self.touched.clear()
        self.gone.clear()
        return replace(self.snapshot, jobs=()), named, gone

    def put(self, view: JobView) -> None:
        self.views[view.job_id] = view
        self.touched[view.job_id] = None

    def submit(self) -> None:
        rng = self.rng
        low = rng.randint(1, NODES if self.counted else 4)
        unit = SizeUnit.NODES
        if not self.counted and rng.random() < 0.7:
            unit = SizeUnit.CORES
        fields: dict[str, Any] = {}
        if rng.random() < 0.5:
            fields["queue"] = rng.choice(["blue", "low"])
        if rng.random() < 0.1:
            fields["reservation"] = "r0"
        if not self.counted and rng.random() < 0.2:
            fields["cap_uw"] = rng.choice([30, 60]) * W
        if unit is SizeUnit.CORES and rng.random() < 0.2:
            fields["exclusive"] = True
        self.submitted += 1
        # In turn, not at random: other worlds stay the same.
        fields["sharing"] = list(CoreSharing)[self.submitted % len(CoreSharing)]
        high, kind = rng.randint(low, NODES + 1), rng.choice(list(JobKind))
        if unit is SizeUnit.CORES and self.submitted % 3 == 0:
            unit, fields["unit_cores"] = SizeUnit.UNITS, 1 + self.submitted % 2
            fields["spread"] = list(Spread)[self.submitted % len(Spread)]
            kind = JobKind.MOLDABLE if kind.resized else kind
        self.put(
            job(
                f"j{self.submitted}",
                low,
                high,
                kind=kind,
                unit=unit,
                mode=rng.choice([ResizeMode.MASK, ResizeMode.FIXED]),
                time_s=rng.choice([0, 20, 50, 400]),
                priority=rng.choice([1.0, 1.0, 1.0, 2.0]),
                profile=self.profile(),
                submitted_s=self.now_s - rng.choice([0, 0, 0, 5]),
                **fields,
            )
        )

    def profile(self) -> PassProfile | None:
        if self.rng.random() < 0.6:
            return None
        base = self.rng.choice(list(APPLICATIONS.values()))
        return replace(base, average_parallelism=8.0, sigma=0.5, t1_s=self.rng.uniform(50, 500))

    def step(self) -> None:
        """Make one or several random changes."""
        rng = self.rng
        self.now_s += rng.choice([0, 1, 30, 200])
        for _ in range(rng.randint(1, 3)):
            self._happen(rng.choice(list(self.views.values())) if self.views else None)
        for job_id, view in self.views.items():
            if view.current is not None:
                self.views[job_id] = replace(view, done=min(view.done + rng.random() / 9, 0.99))

    def _happen(self, view: JobView | None) -> None:
        rng, what = self.rng, self.rng.random()
        if what > 0.98:
            self.reserve()
        elif view is None or what < 0.45:
            self.submit()
        elif what < 0.65:
            self.views.pop(view.job_id)
            self.touched.pop(view.job_id, None)
            self.gone.append(view.job_id)
        elif what < 0.72:
            self.put(replace(view, wanted=rng.randint(0, 5), wanted_ns=round(self.now_s * S)))
        elif what < 0.79:
            self.put(replace(view, profile=self.profile()))
        elif what < 0.84 and view.current is not None:
            self.put(replace(view, movable=not view.movable))
        elif what < 0.88 and view.current is not None:
            self.put(replace(view, current=None, started_ns=-1, resized_ns=-1))
        elif what < 0.9 and view.current is None:
            others = [one.job_id for one in self.views.values() if one.current is None]
            yields_to = rng.choice([other for other in others if other != view.job_id] or [NOBODY])
            self.put(replace(view, yields_to=yields_to))
        elif what < 0.95:
            self.budget_w = rng.choice([40.0, 100.0, 150.0, 300.0])
            self.preempting = rng.choice([0, 0, 1, 2])
            self.reserved_w = rng.choice([0.0, 0.0, 30.0])
        else:
            which = rng.randrange(len(self.nodes))
            cores = CpuSet() if self.counted or rng.random() < 0.5 else CpuSet.of([3])
            self.nodes[which] = self._blocked(self.nodes[which], cores)

    def _blocked(self, view: NodeView, cores: CpuSet) -> NodeView:
        """A node with cores that no job may have; every other time they belong to an ending job.

        With counted nodes, the ending job has all cores of an otherwise unused node.
        """
        name, leaves = view.spec.node_id, round(self.now_s) % 2 == 1
        runs = [one.current for one in self.views.values() if one.current]
        used = {share.node_id for current in runs for share in current.shares}
        if self.counted and leaves and name not in used:
            cores = view.spec.cpus
        gone = (Share(node_id=name, cpus=cores),) if cores and leaves else ()
        return replace(view, blocked=cores, leaving=gone)

    def take(self, plan: Plan) -> None:
        """Accept random parts of a plan. Accepted jobs start immediately or later."""
        for waiting in plan.waiting:
            view = self.views[waiting.job_id]
            self.views[waiting.job_id] = replace(view, promise=waiting.promise)
        for assignment in plan.assignments:
            view = self.views[assignment.job_id]
            if self.rng.random() < 0.15:
                continue
            began_ns = view.started_ns
            if view.current is None:
                began_ns = round(self.now_s * S) if self.rng.random() < 0.7 else -1
            elif began_ns < 0:
                began_ns = round(self.now_s * S)
            resized = view.current is not None and view.current.size != assignment.size
            after = replace(
                view,
                current=assignment,
                started_ns=began_ns,
                preemptable=view.spec.queue == "low",
                resized_ns=round(self.now_s * S) if resized else view.resized_ns,
            )
            if after != view:
                self.put(after)
