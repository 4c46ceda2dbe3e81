"""EASY with one cap on a pool: hand-computed caps, few nodes below the minimum, budget changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.pool.pools import S, W, table

from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.uniform_scheduler import UniformScheduler

CHARGED = Machine.of_watts(4)
"""Idle nodes at 38 + 18 + 25 = 81 W, up to 116 W."""
FREE = Machine.of_watts(10, base_w=20, dram_w=10, cap_w_min=20, cap_w_max=60, idle_w=0)


def run(jobs: JobTable, machine: Machine, budget: BudgetSchedule) -> RunRecord:
    scheduler = UniformScheduler(machine, kills_at_limit=budget.is_constant)
    return simulate(jobs, machine, scheduler, budget)


def four_ones() -> JobTable:
    return table(*[(0, 1, 100)] * 4, app="LeanMD")


def test_every_node_is_at_the_cap_that_feeds_all() -> None:
    """4 * 81 W idle and 4 * 15 W above: 40 W per node.

    At full power only one of the four would run.
    """
    jobs = four_ones()
    record = run(jobs, CHARGED, BudgetSchedule.constant(384 * W))
    assert record.policy == "easy-uniform"
    assert set(record.columns.first_cap_uw.tolist()) == {40 * W}
    assert set(record.columns.start_ns.tolist()) == {0}
    assert record.peak_committed_uw == 384 * W
    slow_s = jobs.profiles[0].time_s(1, 40.0)
    assert slow_s > jobs.profiles[0].time_s(1, 60.0)
    assert record.columns.end_ns[0] / S == pytest.approx(slow_s)


def test_fewer_nodes_are_used_where_the_least_cap_does_not_feed_all() -> None:
    """A busy node takes at least 30 + 20 W; 260 W feed five of the ten nodes."""
    record = run(table(*[(0, 1, 100)] * 10), FREE, BudgetSchedule.constant(260 * W))
    assert set(record.columns.first_cap_uw.tolist()) == {20 * W}
    starts = sorted(record.columns.start_ns.tolist())
    assert starts == [0] * 5 + [100 * S] * 5


def test_the_greatest_cap_where_all_are_fed_at_it() -> None:
    record = run(four_ones(), CHARGED, BudgetSchedule.constant(CHARGED.full_uw + W))
    assert set(record.columns.first_cap_uw.tolist()) == {60 * W}


def test_jobs_that_run_follow_a_budget_down_and_up() -> None:
    """60 W per node, then 40 W from 10 s to 20 s, then 60 W."""
    budget = BudgetSchedule(
        steps=(
            BudgetStep(at_ns=0, budget_uw=CHARGED.full_uw),
            BudgetStep(at_ns=10 * S, budget_uw=384 * W),
            BudgetStep(at_ns=20 * S, budget_uw=CHARGED.full_uw),
        )
    )
    record = run(four_ones(), CHARGED, budget)
    series = record.series
    committed = dict(zip(series.time_ns.tolist(), series.committed_uw.tolist(), strict=True))
    assert [committed[at * S] for at in (0, 10, 20)] == [464 * W, 384 * W, 464 * W]
    total_s = float(record.columns.end_ns[0]) / S
    by_hand_w = (60 * 10 + 40 * 10 + 60 * (total_s - 20)) / total_s
    assert record.columns.mean_cap_uw[0] / W == pytest.approx(by_hand_w)


def test_jobs_that_started_low_are_raised_with_the_budget() -> None:
    budget = BudgetSchedule(
        steps=(
            BudgetStep(at_ns=0, budget_uw=384 * W),
            BudgetStep(at_ns=20 * S, budget_uw=CHARGED.full_uw),
        )
    )
    record = run(four_ones(), CHARGED, budget)
    assert set(record.columns.first_cap_uw.tolist()) == {40 * W}
    assert record.peak_committed_uw == CHARGED.full_uw
    total_s = float(record.columns.end_ns[0]) / S
    by_hand_w = (40 * 20 + 60 * (total_s - 20)) / total_s
    assert record.columns.mean_cap_uw[0] / W == pytest.approx(by_hand_w)


def test_what_is_expected_follows_the_cap() -> None:
    """The wide job waits for the first job, which at 40 W ends late enough for the short job to
    pass.
    """
    jobs = table((0, 3, 100), (1, 4, 50), (20, 1, 80), app="LeanMD")
    jobs = replace(jobs, size_min=jobs.size_max)
    first, short = jobs.profiles[0], jobs.profiles[2]
    assert first.time_s(3, 60) < 20 + short.time_s(1, 40) < first.time_s(3, 40)
    budget = BudgetSchedule(
        steps=(
            BudgetStep(at_ns=0, budget_uw=CHARGED.full_uw),
            BudgetStep(at_ns=10 * S, budget_uw=384 * W),
        )
    )
    record = run(jobs, CHARGED, budget)
    assert record.columns.start_ns[2] == 20 * S
    assert record.columns.start_ns[1] == record.columns.end_ns[[0, 2]].max()
