"""Time limits, preemption and windows: lost, kept and charged work, computed by hand."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from unit.pool.pools import MACHINE, S, Script, W, table
from unit.pool.test_by_node import FULL_W, Told, machine, nodes, run, same_record

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.backfill.node_parts import NodeJobInformation
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.port import Parts
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import PoolSimulation, SimulationError, simulate
from wattfold.simulator.engine.machines.node_machine import NodeMachine, OutageWindow
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.results.table import metrics_document

CAP = 60 * W
FULL = BudgetSchedule.constant(MACHINE.full_uw)


def limited(jobs: JobTable, *limits_s: float) -> JobTable:
    return replace(jobs, limit_ns=np.array([round(s * S) for s in limits_s]))


def seconds(values: np.ndarray) -> list[float]:
    return [value / S for value in values.tolist()]


# ---- limits ------------------------------------------------------------------------------------


def test_a_job_that_reaches_its_limit_is_ended_and_counted() -> None:
    jobs = limited(table((0, 4, 100), (0, 4, 50), (0, 2, 80)), 60, 50, 0)
    record = simulate(jobs, MACHINE, EasyScheduler(), FULL)
    assert seconds(record.columns.end_ns) == [60, 50, 80]
    # The second job ends exactly at its limit; the third has no limit.
    assert record.columns.timed_out is not None
    assert record.columns.timed_out.tolist() == [1, 0, 0]
    assert metrics_of(record).jobs_timed_out == 1


def test_less_cores_make_a_limit_bite_and_more_undo_it() -> None:
    jobs = limited(table((0, 1, 100), (0, 1, 100)), 150, 150)
    both = [Parts(0, [0], 4, FULL_W), Parts(1, [0], 4, FULL_W)]
    record = run(jobs, (0, both), (100, [Parts(1, [0], 1, FULL_W), Parts(0, [0], 7, FULL_W)]))
    # Half is done at 100 s. At seven eighths of the speed the rest takes 57 s, 7 s too long.
    assert seconds(record.columns.end_ns) == [150, 150]
    assert record.columns.timed_out is not None
    assert record.columns.timed_out.tolist() == [1, 1]
    again = run(jobs, (0, both), (100, [Parts(0, [1], 4, FULL_W)]), resize_costs=False)
    assert seconds(again.columns.end_ns)[0] == 150
    assert again.columns.timed_out is not None
    assert again.columns.timed_out.tolist() == [0, 1]


# ---- pre-emption -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "ends_s", "wasted_s"),
    [
        (PreemptionRule(), 50 + 60, 0),
        (PreemptionRule(snapshot_ns=-1), 50 + 100, 40),
        (PreemptionRule(snapshot_ns=15 * S), 50 + 70, 10),
        (PreemptionRule(restart_ns=5 * S), 50 + 65, 0),
    ],
    ids=["kept", "lost", "snapshots", "restart"],
)
@pytest.mark.parametrize("by_node", [False, True], ids=["counted", "by-node"])
def test_what_a_pre_empted_job_keeps(
    rule: PreemptionRule, ends_s: float, wasted_s: float, by_node: bool
) -> None:
    jobs = table((0, 4, 100))
    start, stop = [(0, 4, CAP)], [(0, 0, CAP)]
    steps = (0, start), (40, stop), (50, start)
    on = machine(nodes(10, 8)) if by_node else MACHINE
    budget = BudgetSchedule.constant(on.full_uw)
    record = simulate(jobs, on, Script(*steps), budget, preemption=rule)
    columns = record.columns
    assert seconds(columns.end_ns) == [pytest.approx(ends_s)]
    assert seconds(columns.start_ns) == [50]
    assert columns.attempts is not None
    assert columns.wasted_ns is not None
    assert columns.attempts.tolist() == [2]
    assert seconds(columns.wasted_ns) == [wasted_s]
    # Both attempts are charged, restart included, but not the time between them.
    held_s = 40 + ends_s - 50
    assert seconds(columns.node_ns) == [pytest.approx(4 * held_s)]
    assert columns.mean_cap_uw.tolist() == [pytest.approx(CAP)]
    assert record.series.nodes_busy.tolist()[:3] == [4, 0, 4]
    assert record.series.queued.tolist()[:3] == [0, 1, 0]
    metrics = metrics_of(record)
    assert metrics.preemptions == 1
    assert metrics.wasted_share == pytest.approx(wasted_s / (wasted_s + ends_s - 50))
    assert metrics_document(metrics)["preemptions"] == 1


def test_the_scheduler_hears_of_it_as_an_end_and_a_submission() -> None:
    heard: list[tuple[str, int]] = []

    class Hears(Script):
        def submit(self, job: int, now_ns: int) -> None:
            heard.append(("submit", now_ns // S))

        def end(self, job: int, now_ns: int) -> None:
            heard.append(("end", now_ns // S))

    steps = (0, [(0, 1, CAP)]), (4, [(0, 0, CAP)]), (5, [(0, 1, CAP)])
    simulate(table((0, 1, 10)), MACHINE, Hears(*steps), FULL, preemption=PreemptionRule())
    assert heard == [("submit", 0), ("end", 4), ("submit", 4), ("end", 11)]


def test_a_counted_run_without_a_rule_refuses_pre_emption() -> None:
    steps = (0, [(0, 1, CAP)]), (4, [(0, 0, CAP)])
    with pytest.raises(SimulationError, match="without a rule"):
        simulate(table((0, 1, 10)), MACHINE, Script(*steps), FULL)


def test_limits_are_of_each_attempt() -> None:
    jobs = limited(table((0, 1, 100)), 70)
    steps = (0, [(0, 1, CAP)]), (60, [(0, 0, CAP)]), (80, [(0, 1, CAP)])
    record = simulate(jobs, MACHINE, Script(*steps), FULL, preemption=PreemptionRule())
    assert seconds(record.columns.end_ns) == [120]
    assert metrics_of(record).jobs_timed_out == 0


def test_files_of_runs_without_any_of_it_have_no_such_columns() -> None:
    record = simulate(table((0, 1, 10)), MACHINE, EasyScheduler(), FULL)
    assert record.columns.attempts is None
    assert "preemptions" not in metrics_document(metrics_of(record))


# ---- windows -----------------------------------------------------------------------------------


def with_windows(count: int, *spans: tuple[float, float, int, int]) -> NodeMachine:
    """Start and end (s), first node and how many, on a class of 8 cores."""
    on = machine(nodes(count, 8))
    windows = tuple(
        OutageWindow(class_name="c8", start_ns=round(a * S), end_ns=round(b * S), first=f, count=n)
        for a, b, f, n in spans
    )
    return replace(on, windows=windows)


def test_jobs_in_the_way_are_requeued_and_nodes_come_back() -> None:
    on = with_windows(2, (40, 60, 0, 1))
    seen: list[tuple[int, int, bool]] = []

    def look(jobs: NodeJobInformation) -> None:
        seen.append((jobs.empty_count(), jobs.free_cores(0), 0 in jobs.out_of_use()))

    told = Told(
        (0, [Parts(0, [0], 8, FULL_W), Parts(1, [1], 8, FULL_W)]),
        (60, [Parts(0, [0], 8, FULL_W)]),
        look=look,
    )
    record = simulate(table((0, 1, 100), (0, 1, 50)), on, told, BudgetSchedule.constant(on.full_uw))
    assert seconds(record.columns.end_ns) == [120, 50]
    # The nodes before the start, at 40 s, after the end of the other job, and after the window.
    assert seen[:4] == [(2, 8, False), (0, 0, True), (1, 0, True), (2, 8, False)]
    assert record.series.nodes_busy.tolist()[:4] == [2, 1, 0, 1]


def test_a_job_that_ends_as_a_window_begins_is_let_end() -> None:
    on = with_windows(1, (40, 60, 0, 1))
    record = run(table((0, 1, 40)), (0, [Parts(0, [0], 8, FULL_W)]), on=on)
    assert seconds(record.columns.end_ns) == [40]
    assert record.columns.attempts is not None
    assert record.columns.attempts.tolist() == [1]


def test_nothing_starts_on_a_node_that_is_out_of_use() -> None:
    on = with_windows(1, (10, 60, 0, 1))
    with pytest.raises(SimulationError, match="is out of use"):
        run(table((0, 1, 10)), (20, [Parts(0, [0], 8, FULL_W)]), on=on)


def test_windows_that_overlap_keep_a_node_out_until_the_last() -> None:
    on = with_windows(2, (10, 60, 0, 1), (30, 90, 0, 2))
    steps = ((0, []), (90, [Parts(0, [0], 8, FULL_W)]))
    record = run(table((0, 1, 10)), *steps, on=on)
    assert seconds(record.columns.start_ns) == [90]
    with pytest.raises(SimulationError, match="is out of use"):
        run(table((0, 1, 10)), (60, [Parts(0, [0], 8, FULL_W)]), on=on)


def test_policies_of_the_service_start_nothing_that_runs_into_a_window() -> None:
    on = with_windows(2, (50, 70, 0, 2))
    # The first would run into the window, the second ends before it, the third comes during it.
    jobs = table((0, 1, 60), (1, 1, 30), (55, 2, 10))
    scheduler = NamedPolicyScheduler(jobs, on, FifoEasy(), "easy")
    record = simulate(jobs, on, scheduler, BudgetSchedule.constant(on.full_uw))
    starts = seconds(record.columns.start_ns)
    assert starts[0] == 70
    assert starts[1] == 1
    assert starts[2] >= 70
    assert record.columns.attempts is not None
    assert record.columns.attempts.tolist() == [1, 1, 1]


def test_a_job_longer_than_expected_is_requeued_by_a_window() -> None:
    on = with_windows(1, (50, 70, 0, 1))
    jobs = table((0, 1, 60), estimates=[40])
    scheduler = NamedPolicyScheduler(jobs, on, FifoEasy(), "easy")
    rule = PreemptionRule(snapshot_ns=20 * S)
    record = simulate(jobs, on, scheduler, BudgetSchedule.constant(on.full_uw), preemption=rule)
    # 40 s of 50 are saved, so 20 s remain after the window.
    assert seconds(record.columns.end_ns) == [90]
    assert record.columns.wasted_ns is not None
    assert seconds(record.columns.wasted_ns) == [10]


def test_a_window_on_nodes_that_are_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes 1 to 2 of class 'c8', which has 2"):
        with_windows(2, (0, 10, 1, 2))


def test_a_run_stopped_between_attempts_goes_on_as_one_that_was_not() -> None:
    jobs = limited(table(*[(k, 1 + k % 3, 40) for k in range(30)]), *[35 + k for k in range(30)])
    on = with_windows(6, (20, 40, 0, 3), (90, 120, 2, 4))
    budget = BudgetSchedule.constant(on.full_uw)

    def made() -> PoolSimulation:
        scheduler = NamedPolicyScheduler(jobs, on, FifoEasy(), "easy")
        return PoolSimulation(
            jobs, on, scheduler, budget, preemption=PreemptionRule(snapshot_ns=7 * S)
        )

    whole, parts = made(), made()
    assert whole.run()
    while not parts.run(lambda _turn: False):
        parts = pickle.loads(pickle.dumps(parts))
    same_record(whole.record(), parts.record())
    assert metrics_of(whole.record()).jobs_timed_out > 0
