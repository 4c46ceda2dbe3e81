"""Sleeping nodes of a pool: boots, waits and watts, and random cases with boots that fail."""

from __future__ import annotations

import pickle
import random

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.pool.pools import S, W, table

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.sleep.sleeping import SleepingNodes
from wattfold.simulator.engine.sleep.sleeping_pool import SleepingPool

NODES, ASLEEP_W, IDLE_W, BUSY_W, BOOT_W, BOOT_S = 4, 5, 50, 90, 120, 60
MACHINE = Machine.of_watts(NODES, base_w=20, dram_w=10, cap_w_min=30, cap_w_max=60, idle_w=ASLEEP_W)


def simulation(
    jobs: JobTable, budget_w: float, *, failing: float = 0.0, boots_max: int = 4, timer_s: int = 0
) -> SleepingPool:
    machine = MACHINE
    if timer_s:
        machine = Machine.of_watts(
            NODES, base_w=20, dram_w=10, cap_w_min=30, cap_w_max=60, idle_w=IDLE_W
        )
    rules = SleepRules(
        idle_uw=IDLE_W * W,
        asleep_uw=ASLEEP_W * W,
        boot_uw=BOOT_W * W,
        boot_ns=BOOT_S * S,
        suspend_ns=10 * S,
        boots_max=boots_max,
        awake_min_ns=100 * S,
        timer_ns=timer_s * S,
    )
    sleep = SleepingNodes(
        rules=rules,
        nodes=NODES,
        base_uw=machine.idle_uw,
        cap_uw_min=machine.cap_uw_min,
        rng=random.Random(1),
        failing=failing,
    )
    budget = BudgetSchedule.constant(round(budget_w * W))
    return SleepingPool(jobs, machine, EasyScheduler(kills_at_limit=False), budget, sleep=sleep)


def starts_s(run: SleepingPool) -> list[float]:
    return [ns / S for ns in run.record().columns.start_ns.tolist()]


def test_a_job_gets_a_spare_node_that_boots_before_one_that_sleeps() -> None:
    # The second job takes the spare node, and the next one boots. The third job comes meanwhile.
    run = simulation(table((0, 1, 10), (1000, 1, 500), (1030, 1, 10)), 400)
    run.run()
    assert starts_s(run) == [0, 1000, 1000 + BOOT_S]


def test_a_job_on_sleeping_nodes_starts_when_they_are_up() -> None:
    run = simulation(table((0, 1, 10), (1000, 3, 10)), 400)
    run.run()
    # One spare node is learnt from the first job. Two nodes boot for the second job, and then the
    # last one as a spare node.
    assert starts_s(run) == [0, 1000 + BOOT_S]
    record = run.record()
    assert record.columns.end_ns[1] == (1000 + BOOT_S + 10) * S
    assert record.sleep is not None
    assert record.sleep.boots == 3
    assert record.peak_committed_uw <= 400 * W


def test_boots_follow_each_other_when_few_may_boot_at_once() -> None:
    run = simulation(table((0, 1, 10), (1000, 4, 10)), 400, boots_max=1)
    run.run()
    assert starts_s(run) == [0, 1000 + 3 * BOOT_S]


def test_sleeping_nodes_leave_their_power_to_jobs() -> None:
    """Four idle nodes take 200 W of 275 W, so that only one node could run at 90 W."""
    run = simulation(table((0, 1, 500), (200, 2, 500)), 300)
    run.run()
    assert starts_s(run)[1] < 500
    assert run.record().over_budget_ns == 0


def test_a_timer_leaves_the_power_of_idle_nodes_unused() -> None:
    run = simulation(table((0, 1, 500), (200, 2, 500)), 300, timer_s=60)
    run.run()
    assert starts_s(run)[1] >= 500


@settings(max_examples=examples(200), deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, NODES), st.integers(1, 400)),
        min_size=1,
        max_size=12,
    ),
    budget_w=st.integers(360, 480),
    failing=st.sampled_from([0.0, 0.5]),
    boots_max=st.integers(1, 4),
)
def test_the_budget_holds_and_all_jobs_end_with_boots_that_fail(
    jobs: list[tuple[int, int, int]], budget_w: int, failing: float, boots_max: int
) -> None:
    run = simulation(table(*sorted(jobs)), budget_w, failing=failing, boots_max=boots_max)
    run.run()
    record = run.record()
    assert record.over_budget_ns == 0
    assert record.peak_committed_uw <= budget_w * W
    ran_ns = record.columns.end_ns - record.columns.start_ns
    assert (ran_ns >= record.jobs.run_ns).all(), "no job is done before its nodes have run it"
    assert (record.columns.start_ns >= record.jobs.submit_ns).all()


def test_a_pool_is_stopped_and_continued_with_the_same_result() -> None:
    jobs = table((0, 1, 10), (1000, 3, 10), (1010, 4, 50))
    whole, parts = simulation(jobs, 400, failing=0.5), simulation(jobs, 400, failing=0.5)
    whole.run()
    parts.run(lambda _: False)
    parts = pickle.loads(pickle.dumps(parts))
    parts.run()
    assert starts_s(parts) == starts_s(whole)
