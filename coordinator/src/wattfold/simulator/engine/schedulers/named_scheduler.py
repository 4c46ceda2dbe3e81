"""Driver that runs any policy of the service on a machine of named nodes.

The policy sees the same data as in the service: nodes with names, zones, cores, memory, GPUs and
features, and jobs that request whole nodes, cores of one node, or units on parts of nodes. A
persistent policy (`Scheduled`) receives only changes. Other policies receive snapshots of all jobs,
which is feasible for hundreds of nodes and jobs. The plan names cores; the pool counts them. The
policy sees windows of the machine as maintenance windows.

As in simulations with messages, idle nodes are charged at their floor, whatever power the machine
states for them. A plan that fits at that charge fits here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict, cast

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import (
    NOBODY,
    BudgetAhead,
    JobView,
    Plan,
    Policy,
    Preemption,
    Snapshot,
)
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.training import Training
from wattfold.coordinator.policies.driver.rounds import Rounds
from wattfold.coordinator.policies.port import (
    FOR_NOBODY,
    NOTHING,
    Decision,
    JobInformation,
    Parts,
    Scheduled,
    Scheduler,
    Site,
)
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.machines.stocks import request_of
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.node_jobs import NodeTableJobs
from wattfold.simulator.engine.schedulers.named_nodes import node_views
from wattfold.simulator.engine.schedulers.promised_starts import note_starts
from wattfold.simulator.engine.windows import NodeWindows

DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsThatShare:
    """Sharing kind of each job of a table, and ``ranks``, the cores that it keeps on every node.

    Kind 0: no sharing; 1: the job may start on fewer cores, next to other jobs; 2: it also lends
    cores.
    """

    kinds: bytes
    ranks: int

    def shared(self, spec: JobSpec, job: int) -> JobSpec:
        """Return the request of a job with its sharing, except for units on parts of a node."""
        kind = self.kinds[job]
        if spec.unit is SizeUnit.UNITS:
            return spec
        on_cores = spec.unit is SizeUnit.CORES
        ranks = min(self.ranks, spec.size_max) if on_cores else self.ranks
        return replace(
            spec,
            kind=(JobKind.RIGID, JobKind.MOLDABLE, JobKind.MALLEABLE)[kind],
            sharing=(CoreSharing.NO, CoreSharing.BORROW, CoreSharing.BOTH)[kind],
            size_min=ranks if on_cores and kind else spec.size_max,
            tasks_per_node=ranks,
        )


class NamedPolicyScheduler(Scheduler):
    """Scheduler that runs a policy on numbered nodes. It decides once per instant."""

    name = ""
    each_event = False
    revisit_ns = 0
    solver_ns: Sequence[int] = ()

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        policy: Policy,
        name: str,
        budget: BudgetSchedule | None = None,
        *,
        restart_ns: int = 0,
        ready: Callable[[], object] | None = None,
        sharing: JobsThatShare | None = None,
    ) -> None:
        """Initialize the scheduler.

        ``budget``: that of the run, whose announced changes the policy sees. ``restart_ns``: cost
        of a restart of a training job elsewhere; 0 = none, and unknown to policies. ``ready`` is
        called before every decision, also in resumed runs, so that all plans are made alike.
        """
        self._resizes = policy.resizes and sharing is None
        self._ready, self._sharing = ready, sharing
        self._table, self._machine, self._policy = table, machine, policy
        self._budget, self._restart_ns = budget, restart_ns
        self.name = name
        self._rounds = Rounds(policy.scheduler()) if isinstance(policy, Scheduled) else None
        self._known: NodeTableJobs
        self._views: dict[int, JobView] = {}
        self._changed: dict[int, None] = {}
        self._gone: list[JobId] = []
        self._yields: dict[int, JobId] = {}
        """Requeued jobs, each with the job that it yielded to."""
        self._nodes = node_views(machine)
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
            for number, (start_ns, end_ns, nodes) in enumerate(NodeWindows(machine, first_ns).spans)
        )

    def attach(self, jobs: JobInformation) -> None:
        """Attach the jobs; called once before the first event."""
        self._known = cast("NodeTableJobs", jobs)

    def site(self, site: Site) -> None:
        """Set the power from now on."""
        self._budget_uw = site.spendable_uw + self._machine.idle_total_uw

    def submit(self, job: int, now_ns: int) -> None:  # noqa: ARG002 - `arrived_ns` has its time
        """Queue a job."""
        table = self._table
        training = training_of(table, job)
        spec = spec_of(table, job)
        if self._resizes and table.malleable[job] and spec.unit is SizeUnit.NODES:
            spec = replace(spec, kind=JobKind.MALLEABLE, mode=ResizeMode.RESTART)
        self._views[job] = JobView(
            job_id=JobId(str(job)),
            spec=self._sharing.shared(spec, job) if self._sharing is not None else spec,
            submitted_ns=self._known.arrived_ns(job),
            current=None,
            done=self._known.kept(job) if training is not None else 0.0,
            started_ns=-1,
            resized_ns=-1,
            profile=table.profiles[job] if table.profiles and not _cores(table, job) else None,
            planned_ns=self._known.foretold_ns(job),
            yields_to=self._yields.get(job, NOBODY),
            waits=table.waits_of(job),
            training=training,
            restart_ns=self._restart_ns or None,
        )
        self._changed[job] = None

    def change(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """Use a changed estimate of a running job."""
        planned_ns = self._known.foretold_ns(job)
        self._views[job] = replace(self._views[job], planned_ns=planned_ns)
        self._changed[job] = None

    def end(self, job: int, now_ns: int) -> None:  # noqa: ARG002
        """Remove an ended job."""
        self._gone.append(self._views.pop(job).job_id)
        self._changed.pop(job, None)

    def decide(self, now_ns: int) -> Decision:
        """Return starts, changes of cores or caps, and preemptions."""
        if not self._views:
            self.revisit_ns = 0
            return NOTHING
        if self._ready is not None:
            self._ready()
        plan = self._plan(now_ns)
        note_starts(self.first_told, plan)
        self.revisit_ns = plan.revisit_ns
        changes: list[Parts] = []
        for assignment in plan.assignments:
            job = int(assignment.job_id)
            view = self._views[job]
            if view.current != assignment:
                changes += self._decided(job, view, assignment)
                self._take(job, view, assignment, now_ns)
        for one in plan.preemptions:
            self._yields[int(one.job_id)] = one.for_job
        return Decision(changes, numbered(plan.preemptions))

    def _plan(self, now_ns: int) -> Plan:
        for job, view in self._views.items():
            held = self._known.held(job)
            if view.current is not None and held is not None:
                self._views[job] = replace(view, done=self._known.done(job, now_ns))
                self._changed[job] = None
        return self._proposed(self._world(now_ns))

    def _world(self, now_ns: int) -> Snapshot:
        """Return what the policy plans with."""
        out = self._known.out_of_use()
        return Snapshot(
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

    def _proposed(self, world: Snapshot) -> Plan:
        now_ns = world.now_ns
        if self._rounds is None:
            self._changed.clear()
            self._gone.clear()
            return self._policy.propose(world, now_ns, DEADLINE_S)
        changed = [self._views[job] for job in sorted(self._changed)]
        self._rounds.tell(world, changed, self._gone)
        self._changed.clear()
        self._gone.clear()
        return self._rounds.plan(now_ns, explains=self._explains())

    def _explains(self) -> bool:
        """Return whether a waiting job has not been told its first expected start."""
        return any(
            view.current is None and job not in self.first_told for job, view in self._views.items()
        )

    def _ahead(self, now_ns: int) -> tuple[BudgetAhead, ...]:
        """Return the announced changes of the budget."""
        first_ns = self._first_ns
        steps = self._budget.ahead(now_ns - first_ns) if self._budget is not None else ()
        return tuple(BudgetAhead(first_ns + one.at_ns, one.budget_uw) for one in steps)

    def _take(self, job: int, view: JobView, assignment: Assignment, now_ns: int) -> None:
        """Record an assignment of the plan; the pool applies it in this instant."""
        before = view.current
        if before is None:
            self._let_go(view.job_id)
        resized_ns = view.resized_ns
        if before is not None and before.shares != assignment.shares:
            resized_ns = now_ns
        started_ns = now_ns if before is None else view.started_ns
        trains = view.training is not None
        moves = trains or view.spec.mode is ResizeMode.RESTART
        self._views[job] = replace(
            view,
            current=assignment,
            started_ns=started_ns,
            resized_ns=resized_ns,
            preemptable=trains,
            nodes_may_change=moves,
            restart_ns=(self._restarts_ns(job, assignment) or None) if trains else None,
        )
        self._changed[job] = None

    def _restarts_ns(self, job: int, assignment: Assignment) -> int:
        """Return the cost of restarting a running job, with half a snapshot interval lost."""
        node = self._nodes[self._numbers[assignment.shares[0].node_id]].spec
        lost_ns = snapshot_ns(self._table, job, node.kind, assignment) // 2
        return self._restart_ns + lost_ns

    def _let_go(self, started: JobId) -> None:
        """Let jobs start that were preempted for a job, which has started now."""
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


def numbered(preemptions: Iterable[Preemption]) -> list[tuple[int, int]]:
    """Return the preemptions of a plan with the numbers of jobs."""
    return [
        (int(one.job_id), int(one.for_job) if one.for_job != NOBODY else FOR_NOBODY)
        for one in preemptions
    ]


def _holds(assignment: Assignment) -> tuple[object, ...]:
    return assignment.shares, assignment.cap_uw, assignment.levels


def spec_of(table: JobTable, job: int) -> JobSpec:
    """Return a job of the table as a submission; one unit on part of a node counts its cores.

    Training jobs resume from their snapshots, at any of their sizes.
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
    """Return the time between snapshots of a training job on nodes of a kind."""
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
    """Return the training data of a job of the table; None if it is not a training job."""
    return table.training.trainings[job] if table.training is not None else None


def _cores(table: JobTable, job: int) -> int:
    return int(table.units.cores[job]) if table.units is not None else 0
