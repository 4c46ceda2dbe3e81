"""Policies of the service on nodes of several classes, through the scheduler of the pool."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from unit.pool.pools import S, W, table
from unit.pool.test_by_node import machine, nodes

from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.plan import Plan, Policy, Preemption, Snapshot
from wattfold.coordinator.core.model.queue import NO_WAITS, Waits
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.backfill.expected_starts import Unexplained
from wattfold.coordinator.policies.constraint.policy import Constraint
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.port import Scheduled
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.node_machine import NodeMachine, OutageWindow
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable, UnitColumns, WaitColumns
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.results.metrics import metrics_of

SERVED = [e for e in registry.entries() if e.variant.service is not None]


def run(jobs: JobTable, policy: Policy, on: NodeMachine, **options) -> RunRecord:
    budget = options.pop("budget", BudgetSchedule.constant(on.full_uw))
    scheduler = NamedPolicyScheduler(jobs, on, policy, policy.name)
    return simulate(jobs, on, scheduler, budget, **options)


def seconds(values: np.ndarray) -> list[float]:
    return [value / S for value in values.tolist()]


def asking(jobs: JobTable, *rows: tuple[int, int, int, tuple[str, ...]]) -> JobTable:
    """Set cores, memory, GPUs and features of the units of each job."""
    cores, memory, gpus, features = zip(*rows, strict=True)
    return replace(
        jobs,
        units=UnitColumns(
            cores=np.array(cores),
            memory_bytes=np.array(memory),
            gpus=np.array(gpus),
            features=tuple(features),
        ),
    )


def test_jobs_share_a_node_until_its_cores_are_gone() -> None:
    jobs = asking(table((0, 1, 100), (0, 1, 100), (0, 1, 50)), *[(3, 0, 0, ())] * 3)
    record = run(jobs, FifoEasy(), machine(nodes(1, 8)))
    assert seconds(record.columns.start_ns) == [0, 0, 100]
    assert record.columns.first_cores is not None
    assert record.columns.first_cores.tolist() == [3, 3, 3]
    assert record.series.nodes_busy.tolist() == [1, 1, 0]


def test_gpus_memory_and_features_decide_where_jobs_wait() -> None:
    on = machine(
        nodes(1, 8, gpus=2, memory_bytes=100),
        nodes(1, 4, name="bare", features=("fast",)),
    )
    jobs = asking(
        table((0, 1, 100), (0, 1, 100), (0, 1, 100), (0, 1, 100), (0, 1, 100)),
        (1, 0, 2, ()),
        (1, 0, 1, ()),
        (1, 60, 0, ()),
        (1, 60, 0, ()),
        (4, 0, 0, ("fast",)),
    )
    record = run(jobs, FifoEasy(), on)
    # The second lacks a GPU and the fourth lacks memory; the others need resources that are free.
    assert seconds(record.columns.start_ns) == [0, 100, 0, 100, 0]


def test_a_job_over_both_classes_is_charged_by_each() -> None:
    on = machine(nodes(2, 8), nodes(1, 4, name="small"))
    small = replace(on.classes[1], cap_uw_max=30 * W)
    on = NodeMachine(classes=(on.classes[0], small))
    record = run(table((0, 3, 100)), FifoEasy(), on)
    # 40 W above the floor on two nodes, 10 W on the node with the lower maximum, and 3 x 30 W idle.
    assert record.series.committed_uw[0] == (90 + 2 * 40 + 10) * W


@pytest.mark.parametrize("entry", SERVED, ids=lambda entry: entry.variant.name)
def test_every_policy_of_the_service_ends_all_jobs_on_unlike_nodes(
    entry: registry.RegisteredPolicy,
) -> None:
    on = machine(nodes(3, 8, gpus=1), nodes(3, 4, name="small"))
    rows = [(k * 7 % 200, 1 + k % 3, 5 + k % 31) for k in range(16)]
    jobs = table(*sorted(rows), app="LeanMD")
    policy = entry.service(entry.family.defaults())
    spare = on.full_uw - on.idle_total_uw
    budget = BudgetSchedule.constant(on.idle_total_uw + spare * 2 // 3)
    runs = [run(jobs, policy, on, budget=budget) for _ in range(2)]
    assert (runs[0].columns.end_ns >= 0).all()
    assert (runs[0].series.committed_uw <= budget.least_uw).all()
    assert np.array_equal(runs[0].columns.end_ns, runs[1].columns.end_ns)


def test_caps_slow_jobs_by_the_slowest_class() -> None:
    """Nodes of the class with the lower maximum are slower, and they determine the speed of the
    job.
    """
    on = machine(nodes(1, 8))
    slow = NodeMachine(classes=(*on.classes, replace(on.classes[0], name="low", cap_uw_max=30 * W)))
    fast = NodeMachine(classes=(*on.classes, replace(on.classes[0], name="same")))
    jobs = table((0, 2, 100), app="LeanMD")
    jobs = replace(jobs, size_min=jobs.size_max)
    ends = [
        run(jobs, FifoEasy(), m, model=RunTimeModel.PASS).columns.end_ns[0] for m in (fast, slow)
    ]
    assert ends[1] > ends[0] * 1.2


def test_another_cap_is_no_resize() -> None:
    """New caps under a changed budget name no nodes."""
    on = machine(nodes(2, 8), nodes(1, 4, name="small"))
    budget = BudgetSchedule(
        steps=(
            BudgetStep(at_ns=0, budget_uw=on.full_uw),
            BudgetStep(at_ns=10 * S, budget_uw=on.full_uw * 3 // 4),
        )
    )
    record = run(table((0, 2, 100)), EasyUniform(), on, budget=budget)
    assert record.columns.resizes.tolist() == [0]
    assert record.series.committed_uw[1] < record.series.committed_uw[0]
    assert record.columns.mean_cap_uw[0] < record.columns.first_cap_uw[0]


def test_units_of_a_job_go_to_parts_of_several_nodes() -> None:
    """Three units of three cores and 40 bytes: each node has cores and memory for two units."""
    jobs = asking(table((0, 3, 100), (0, 1, 50), (0, 2, 10)), *[(3, 40, 0, ())] * 3)
    record = run(jobs, FifoEasy(), machine(nodes(2, 8, memory_bytes=100)))
    assert seconds(record.columns.start_ns) == [0, 0, 100]
    assert record.columns.first_cores is not None
    assert record.columns.first_cores.tolist() == [9, 3, 6]
    assert record.columns.first_size.tolist() == [3, 1, 2]


@pytest.mark.parametrize("entry", SERVED, ids=lambda entry: entry.variant.name)
def test_every_policy_of_the_service_ends_all_jobs_of_units(
    entry: registry.RegisteredPolicy,
) -> None:
    on = machine(
        nodes(3, 8, gpus=2, memory_bytes=100),
        nodes(3, 4, name="small", memory_bytes=50, features=("mic",)),
    )
    rows = [(k * 7 % 200, 1 + k % 4, 5 + k % 31) for k in range(16)]
    jobs = asking(
        table(*sorted(rows)),
        *[(k % 4, 20 * (k % 3), k % 2, ()) if k % 5 else (2, 10, 0, ("mic",)) for k in range(16)],
    )
    policy = entry.service(entry.family.defaults())
    spare = on.full_uw - on.idle_total_uw
    budget = BudgetSchedule.constant(on.idle_total_uw + spare * 2 // 3)
    record = run(jobs, policy, on, budget=budget)
    assert (record.columns.end_ns >= 0).all()
    assert (record.series.committed_uw <= budget.least_uw).all()
    assert np.array_equal(record.columns.first_size, jobs.size_max)
    assert record.decisions > 0


@pytest.mark.parametrize("entry", SERVED, ids=lambda entry: entry.variant.name)
def test_every_policy_of_the_service_plans_around_windows(entry: registry.RegisteredPolicy) -> None:
    """Run times are the users' estimates, so no job ever needs a requeue."""
    on = machine(nodes(3, 8), nodes(2, 4, name="small"))
    windows = [("c8", 60, 100, 0, 2), ("small", 90, 120, 0, 1), ("c8", 200, 260, 1, 2)]
    on = replace(
        on,
        windows=tuple(
            OutageWindow(class_name=name, start_ns=a * S, end_ns=b * S, first=first, count=count)
            for name, a, b, first, count in windows
        ),
    )
    jobs = table(*[(k * 7, 1 + k % 2, 10 + k * 13 % 50) for k in range(16)])
    policy = entry.service(entry.family.defaults())
    record = run(jobs, policy, on, model=RunTimeModel.IDEAL)
    assert (record.columns.end_ns >= 0).all()
    assert record.columns.attempts is not None
    assert record.columns.attempts.tolist() == [1] * len(jobs)
    waited = record.columns.start_ns - jobs.submit_ns
    assert waited.max() > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MakesWay(Policy):
    """Keeps running jobs, but preempts smaller jobs for a larger waiting job."""

    @property
    def name(self) -> str:
        return "makes-way"

    def fallback(self) -> Policy | None:
        return None

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        del now_ns, deadline_s
        waits = [view for view in snapshot.jobs if view.current is None and not view.yields_to]
        waits.sort(key=lambda view: -view.spec.size_max)
        running = [view.current for view in snapshot.jobs if view.current is not None]
        taken = {share.node_id for one in running for share in one.shares}
        free = [node for node in snapshot.nodes if node.spec.node_id not in taken]
        starts, preempted = [], []
        for view in waits:
            size = view.spec.size_max
            if len(free) >= size:
                shares = tuple(Share(node_id=n.spec.node_id, cpus=n.spec.cpus) for n in free[:size])
                cap_uw = free[0].spec.package_max_uw
                starts.append(
                    Assignment(job_id=view.job_id, size=size, cap_uw=cap_uw, shares=shares)
                )
                del free[:size]
            elif not preempted:
                preempted = [
                    Preemption(job_id=one.job_id, for_job=view.job_id, reason="in the way")
                    for one in running
                    if one.size < size
                ]
        return Plan(
            assignments=(*running, *starts),
            waiting=(),
            preemptions=tuple(preempted),
            solver="none",
            outcome="optimal",
        )


def test_a_plan_pre_empts_in_the_instant_and_the_job_goes_on_when_the_other_has_started() -> None:
    jobs = table((0, 1, 100), (0, 1, 100), (30, 2, 50))
    rule = PreemptionRule(snapshot_ns=20 * S)
    record = run(jobs, MakesWay(), machine(nodes(2, 8)), preemption=rule)
    # The large job starts immediately. 20 s of the 30 s of the others are saved, and both resume
    # after it. Starts are those of last attempts.
    assert seconds(record.columns.start_ns) == [80, 80, 30]
    assert seconds(record.columns.end_ns) == [160, 160, 80]
    assert record.columns.attempts is not None
    assert record.columns.attempts.tolist() == [2, 2, 1]


def test_starts_that_are_told_are_compared_with_those_that_come() -> None:
    """The first runs half as long as estimated, so the second starts 50 s early."""
    jobs = table((0, 1, 50), (10, 1, 100), (20, 1, 10), estimates=(100, 100, 120))
    record = run(asking(jobs, *[(8, 0, 0, ())] * 3), Constraint(), machine(nodes(1, 8)))
    assert seconds(record.columns.start_ns) == [0, 50, 150]
    assert record.told_ns is not None
    assert record.told_ns[0] == -1
    assert seconds(record.told_ns)[1:] == [100, 200]
    measured = metrics_of(record)
    assert (measured.start_error_s_mean, measured.start_error_s_median) == (50, 50)
    assert measured.start_kept_share == 1.0
    later = replace(record, told_ns=record.told_ns - np.array([0, 100, 111]) * S)
    # 50 and 61 s after the shifted planned starts.
    assert metrics_of(later).start_kept_share == 0.5
    early = run(jobs, FifoEasy(backfill=False), machine(nodes(3, 8)))
    assert early.told_ns is None
    assert metrics_of(early).start_error_s_mean == 0


class Sees(EasyUniform):
    """Records the announced budgets, in seconds and watts."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "seen", {})

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        ahead = [(one.from_ns // S, one.budget_uw // W) for one in snapshot.ahead]
        self.seen[now_ns // S] = ahead
        return super().propose(snapshot, now_ns, deadline_s)


def test_policies_know_what_is_announced_of_the_budget() -> None:
    jobs, on, policy = table((0, 1, 90), (50, 1, 90), (100, 1, 90)), machine(nodes(2, 8)), Sees()
    least_w = on.full_uw // W - 10
    steps = [(0, least_w, 0), (80, least_w + 5, 40), (95, least_w, 10), (900, least_w, 0)]
    budget = BudgetSchedule(
        steps=tuple(
            BudgetStep(at_ns=at_s * S, budget_uw=budget_w * W, notice_ns=notice_s * S)
            for at_s, budget_w, notice_s in steps
        )
    )
    simulate(jobs, on, NamedPolicyScheduler(jobs, on, policy, "sees", budget), budget)
    seen = policy.seen
    assert (seen[0], seen[50], seen[100]) == ([], [(80, least_w + 5)], [])
    # Both budget steps are in the future, and one of them is announced.
    assert (seen[80], seen[90]) == ([], [(95, least_w)])


@pytest.mark.parametrize("policy", [FifoEasy(), EasyUniform()], ids=["standing", "anew"])
def test_policies_are_told_what_queues_say_of_waits(policy: Policy) -> None:
    jobs = table((0, 1, 10), (0, 1, 10))
    said = WaitColumns(expected_ns=np.array([5 * S, 0]), max_ns=np.array([9 * S, 0]))
    on = machine(nodes(1, 8))
    seen: list[Waits] = []

    class Listening(NamedPolicyScheduler):
        def _plan(self, now_ns: int) -> Plan:
            seen.extend(view.waits for view in self._views.values())
            return super()._plan(now_ns)

    waiting = replace(jobs, waits=said)
    scheduler = Listening(waiting, on, policy, policy.name)
    simulate(waiting, on, scheduler, BudgetSchedule.constant(on.full_uw))
    assert seen[:2] == [Waits(5 * S, 9 * S), NO_WAITS]


class Explains(NamedPolicyScheduler):
    """Reads the reasons of every decision, as the service does."""

    def _explains(self) -> bool:
        return True


class CountsReasons(NamedPolicyScheduler):
    """Counts decisions whose reasons were read."""

    decisions = read = 0

    def _explains(self) -> bool:
        reads = super()._explains()
        self.decisions += 1
        self.read += reads
        return reads


@pytest.mark.parametrize("entry", SERVED, ids=lambda entry: entry.variant.name)
def test_reasons_that_nobody_reads_change_nothing(entry: registry.RegisteredPolicy) -> None:
    on = machine(nodes(3, 4), replace(nodes(2, 8), name="large"))
    rng = np.random.default_rng(5)
    sizes, gaps, times = rng.integers(1, 4, 16), rng.integers(1, 40, 16), rng.integers(20, 200, 16)
    rows = zip(gaps.cumsum().tolist(), sizes.tolist(), times.tolist(), strict=True)
    jobs = table(*rows, app="LeanMD")
    budget = BudgetSchedule.constant(on.full_uw * 9 // 10)
    policy = entry.service(entry.family.defaults())
    read = Explains(jobs, on, policy, entry.variant.name)
    lazy = CountsReasons(jobs, on, policy, entry.variant.name)
    always, sometimes = (simulate(jobs, on, one, budget) for one in (read, lazy))
    assert lazy.first_told == read.first_told
    assert isinstance(policy, Scheduled) == (lazy.decisions > 0)
    assert lazy.read < max(lazy.decisions, 1)
    for name in ("start_ns", "end_ns", "first_cap_uw", "resizes"):
        assert np.array_equal(getattr(sometimes.columns, name), getattr(always.columns, name)), name
    assert sometimes.energy_uj == always.energy_uj


class ReadsNothing(NamedPolicyScheduler):
    """Reads no reasons."""

    def _explains(self) -> bool:
        return False


def test_expected_starts_are_not_computed_unless_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on = machine(nodes(2, 4), replace(nodes(1, 8), name="large"))
    computed = 0

    def starts(*_: object) -> dict[int, int]:
        nonlocal computed
        computed += 1
        return {}

    monkeypatch.setattr(Unexplained, "starts", starts)
    jobs, budget = table((0, 3, 100), (1, 3, 100), (2, 1, 10)), BudgetSchedule.constant(on.full_uw)
    simulate(jobs, on, ReadsNothing(jobs, on, FifoEasy(), "easy"), budget)
    assert computed == 0
    simulate(jobs, on, Explains(jobs, on, FifoEasy(), "easy"), budget)
    assert computed > 0
