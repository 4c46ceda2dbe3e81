"""Any policy of the service on a machine whose nodes are told apart: the driver of its own.

The policy sees what it sees in the service: nodes with names, zones, cores, memory, GPUs and
features, and jobs that ask for whole nodes, for cores of one, or for units on parts of some. A
policy that can be kept up (`Scheduled`) is told what has changed, another one is asked with
snapshots of all jobs: that is for hundreds of nodes and jobs. Its plan names cores; the pool counts
them. Windows of the machine are maintenance windows to it.

As with messages, idle nodes are charged as at their floor, whatever the machine says they draw: a
plan that fits then fits here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypedDict, cast

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.core.charge import fixed_uw
from wattfold.coordinator.core.job import Assignment, JobKind, JobSpec, ResizeMode, SizeUnit
from wattfold.coordinator.core.node import NodeKind, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.plan import (
    NOBODY,
    BudgetAhead,
    JobView,
    NodeView,
    Plan,
    Policy,
    Snapshot,
)
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.models.training import Training
from wattfold.coordinator.policies.node_parts import Parts
from wattfold.coordinator.policies.rounds import Rounds
from wattfold.coordinator.policies.scheduler import Decision, Jobs, Scheduled, Site
from wattfold.coordinator.simulation.pool.budget import Budget
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import NodePowers
from wattfold.coordinator.simulation.pool.node_jobs import NodeTableJobs
from wattfold.coordinator.simulation.pool.node_machine import NodeClass, NodeMachine
from wattfold.coordinator.simulation.pool.stocks import request_of
from wattfold.coordinator.simulation.pool.told_starts import note_starts
from wattfold.coordinator.simulation.pool.windows import Windows

DEADLINE_S = 20.0


class NamedPolicyScheduler:
    """A policy at work on numbered nodes. Decides once for all events of an instant."""

    each_event = False
    solver_ns: Sequence[int] = ()

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        policy: Policy,
        name: str,
        budget: Budget | None = None,
        *,
        restart_ns: int = 0,
        ready: Callable[[], object] | None = None,
    ) -> None:
        """``budget``: that of the run, of which the policy knows what is announced;
        ``restart_ns``: what it costs a training job to start again somewhere else.

        ``ready`` is called before every decision, also of a run that was resumed: what makes plans
        is then the same from the first to the last.
        """
        self._ready = ready
        self._table, self._machine, self._policy = table, machine, policy
        self._budget, self._restart_ns = budget, restart_ns
        self.name = name
        self.revisit_ns = 0
        self._rounds = Rounds(policy.scheduler()) if isinstance(policy, Scheduled) else None
        self._known: NodeTableJobs
        self._views: dict[int, JobView] = {}
        self._changed: dict[int, None] = {}
        self._gone: list[JobId] = []
        self._yields: dict[int, JobId] = {}
        """Jobs that were pre-empted, and for which."""
        self._nodes = tuple(
            node_view(f"{one.name}-{number}", one, one)
            for one in machine.classes
            for number in range(one.count)
        )
        self._numbers = {view.spec.node_id: n for n, view in enumerate(self._nodes)}
        self._budget_uw = 0
        self.first_told: dict[int, int] = {}
        first_ns = self._first_ns = int(table.submit_ns[0]) if len(table) else 0
        self._reservations = tuple(
            Reservation(
                name=f"window-{number}",
                nodes=tuple(self._nodes[node].spec.node_id for node in nodes),
                start_ns=start_ns,
                end_ns=end_ns,
                maintenance=True,
            )
            for number, (start_ns, end_ns, nodes) in enumerate(Windows(machine, first_ns).spans)
        )

    def attach(self, jobs: Jobs) -> None:
        """Called once before the first event."""
        self._known = cast("NodeTableJobs", jobs)

    def site(self, site: Site) -> None:
        """Power from now on."""
        self._budget_uw = site.spendable_uw + self._machine.idle_total_uw

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - the table has its time
        """A job enters the queue."""
        table = self._table
        training = training_of(table, job)
        self._views[job] = JobView(
            job_id=JobId(str(job)),
            spec=spec_of(table, job),
            submitted_ns=int(table.submit_ns[job]),
            current=None,
            done=self._known.kept(job) if training is not None else 0.0,
            started_ns=-1,
            resized_ns=-1,
            profile=table.profiles[job] if table.profiles and not _cores(table, job) else None,
            planned_ns=self._known.foretold_ns(job),
            yields_to=self._yields.get(job, NOBODY),
            waits=table.waits_of(job),
            training=training,
            restart_ns=self._restart_ns if training is not None else 0,
        )
        self._changed[job] = None

    def change(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """The estimate of a running job is another."""
        planned_ns = self._known.foretold_ns(job)
        self._views[job] = replace(self._views[job], planned_ns=planned_ns)
        self._changed[job] = None

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """A job has ended."""
        self._gone.append(self._views.pop(job).job_id)
        self._changed.pop(job, None)

    def decide(self, now_ns: int) -> Sequence[Parts | Decision]:
        """Starts, running jobs whose cores or cap change, and those that are pre-empted."""
        if not self._views:
            self.revisit_ns = 0
            return ()
        if self._ready is not None:
            self._ready()
        plan = self._plan(now_ns)
        note_starts(self.first_told, plan)
        self.revisit_ns = plan.revisit_ns
        decisions: list[Parts | Decision] = []
        for assignment in plan.assignments:
            job = int(assignment.job_id)
            view = self._views[job]
            if view.current != assignment:
                decisions += self._decided(job, view, assignment)
                self._take(job, view, assignment, now_ns)
        for one in plan.preemptions:
            job = int(one.job_id)
            self._yields[job] = one.for_job
            decisions.append((job, 0, 0))
        return decisions

    def _plan(self, now_ns: int) -> Plan:
        for job, view in self._views.items():
            held = self._known.held(job)
            if view.current is not None and held is not None:
                self._views[job] = replace(view, done=self._known.done(job, now_ns))
                self._changed[job] = None
        out = self._known.out_of_use()
        world = Snapshot(
            now_ns=now_ns,
            budget_uw=self._budget_uw,
            reserved_uw=sum(self._nodes[node].fixed_uw for node in out),
            nodes=tuple(view for n, view in enumerate(self._nodes) if n not in out)
            if out
            else self._nodes,
            jobs=tuple(self._views.values()),
            reservations=tuple(one for one in self._reservations if one.end_ns > now_ns),
            ahead=self._ahead(now_ns),
        )
        if self._rounds is None:
            self._changed.clear()
            self._gone.clear()
            return self._policy.propose(world, now_ns, DEADLINE_S)
        changed = [self._views[job] for job in sorted(self._changed)]
        self._rounds.tell(world, changed, self._gone)
        self._changed.clear()
        self._gone.clear()
        return self._rounds.plan(now_ns)

    def _ahead(self, now_ns: int) -> tuple[BudgetAhead, ...]:
        """The changes of the budget that are announced."""
        first_ns = self._first_ns
        steps = self._budget.ahead(now_ns - first_ns) if self._budget is not None else ()
        return tuple(BudgetAhead(first_ns + one.at_ns, one.budget_uw) for one in steps)

    def _take(self, job: int, view: JobView, assignment: Assignment, now_ns: int) -> None:
        """The pool does what the plan says, in the instant."""
        before = view.current
        if before is None:
            self._let_go(view.job_id)
        resized_ns = view.resized_ns
        if before is not None and before.shares != assignment.shares:
            resized_ns = now_ns
        started_ns = now_ns if before is None else view.started_ns
        trains = view.training is not None
        self._views[job] = replace(
            view,
            current=assignment,
            started_ns=started_ns,
            resized_ns=resized_ns,
            preemptable=trains,
            nodes_may_change=trains,
            restart_ns=self._restarts_ns(job, assignment) if trains else 0,
        )
        self._changed[job] = None

    def _restarts_ns(self, job: int, assignment: Assignment) -> int:
        """What a start from its snapshot costs a running job: half an interval is lost, too."""
        node = self._nodes[self._numbers[assignment.shares[0].node_id]].spec
        lost_ns = snapshot_ns(self._table, job, node.kind, assignment) // 2
        return self._restart_ns + lost_ns

    def _let_go(self, started: JobId) -> None:
        """Those that were pre-empted for a job may start when it has."""
        for job in [job for job, waits in self._yields.items() if waits == started]:
            del self._yields[job]
            if job in self._views:
                self._views[job] = replace(self._views[job], yields_to=NOBODY)
                self._changed[job] = None

    def _decided(self, job: int, view: JobView, assignment: Assignment) -> list[Parts]:
        wanted = {self._numbers[s.node_id]: len(s.cpus) for s in assignment.shares}
        had: dict[int, int] = {}
        if view.current is not None:
            if _holds(view.current) == _holds(assignment):
                return []
            had = {self._numbers[s.node_id]: len(s.cpus) for s in view.current.shares}
        named = {node: wanted.get(node, 0) for node in {**had, **wanted}}
        named = {node: cores for node, cores in named.items() if cores != had.get(node, 0)}
        gpu_uw = assignment.levels.gpu_uw
        return [Parts(job, list(named), list(named.values()), assignment.cap_uw, gpu_uw)]


def _holds(assignment: Assignment) -> tuple[object, ...]:
    return assignment.shares, assignment.cap_uw, assignment.levels


def spec_of(table: JobTable, job: int) -> JobSpec:
    """A job of the table as it would be submitted; one unit on part of a node counts its cores.

    One that trains goes on from its snapshots, at any of its sizes.
    """
    request = request_of(table.units, job)
    low, high = int(table.size_min[job]), int(table.size_max[job])
    unit, unit_cores = SizeUnit.NODES, 0
    training = training_of(table, job)
    if request.cores and high == 1 and training is None:
        unit, low, high = SizeUnit.CORES, request.cores, request.cores
    elif request.cores:
        unit, unit_cores = SizeUnit.UNITS, request.cores
    return JobSpec(
        name=str(table.job_ids[job]),
        app=str(table.job_ids[job]),
        argv=("simulated",),
        kind=JobKind.MOLDABLE if low < high else JobKind.RIGID,
        size_min=low,
        size_max=high,
        unit=unit,
        unit_cores=unit_cores,
        priority=float(table.priority[job]),
        time_ns=int(table.estimate_ns[job]),
        limit_ns=int(table.limit_ns[job]) if table.limit_ns is not None else 0,
        memory_bytes=request.memory_bytes,
        gpus=request.gpus,
        features=request.features,
        predicted_uw=int(table.predicted_uw[job]) if table.predicted_uw is not None else 0,
        **(_training_spec(table, job, training) if training is not None else {}),
    )


class _TrainingSpec(TypedDict, total=False):
    epochs: int
    due_ns: int
    weight: float
    mode: ResizeMode
    spread: Spread
    restartable: bool
    preemptable: bool


def _training_spec(table: JobTable, job: int, training: Training) -> _TrainingSpec:
    columns = table.training
    assert columns is not None, "a job of it trains"
    return _TrainingSpec(
        epochs=training.epochs,
        due_ns=int(columns.due_ns[job]),
        weight=float(columns.weights[job]),
        mode=ResizeMode.RESTART,
        spread=Spread.TOGETHER,
        restartable=True,
        preemptable=True,
    )


def snapshot_ns(table: JobTable, job: int, kind: NodeKind, assignment: Assignment) -> int:
    """Time from one snapshot of a training job to the next, on nodes of a kind."""
    training = training_of(table, job)
    if training is None or table.training is None:
        return 0
    gpus = assignment.size * request_of(table.units, job).gpus
    time = training.on(kind.gpu_model, gpus)
    level_uw = assignment.levels.gpu_uw
    if time is None:
        return 0
    time = time.under_any(w_from_uw(kind.gpu_most_uw))
    epoch_s = time.under_s(w_from_uw(level_uw) if level_uw else 0.0)
    return round(int(table.training.snapshot_epochs[job]) * epoch_s * NS_PER_S)


def training_of(table: JobTable, job: int) -> Training | None:
    """What is known of a training job of the table; None for others."""
    return table.training.trainings[job] if table.training is not None else None


def _cores(table: JobTable, job: int) -> int:
    return int(table.units.cores[job]) if table.units is not None else 0


def node_view(name: str, one: NodePowers, has: NodeClass | None = None) -> NodeView:
    """A node as a policy sees it; of one core and nothing else where it is not said what it has."""
    package = Zone(
        name=ZoneName("package-0"),
        kind=ZoneKind.PACKAGE,
        cap_uw_min=one.cap_uw_min,
        cap_uw_max=one.cap_uw_max,
        floor_uw=one.cap_uw_min,
        window_ns=NS_PER_S,
    )
    gpus = tuple(f"gpu{number}" for number in range(has.gpus if has else 0))
    spec = NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(has.cores if has else 1)),
        zones=(package, *(has.gpu_zone(gpu) for gpu in gpus if has and has.gpu_uw_max)),
        base_power_uw=one.base_uw + one.dram_uw,
        memory_bytes=has.memory_bytes if has else 0,
        gpus=gpus,
        gpu_model=has.gpu_model if has else "",
        features=has.features if has else (),
    )
    return NodeView(spec=spec, fixed_uw=fixed_uw(spec, 0), features=spec.features)
