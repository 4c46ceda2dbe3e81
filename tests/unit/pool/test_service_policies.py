"""A policy of the service on identical named nodes decides as the pool's own version does."""

from __future__ import annotations

import random

import numpy as np
import pytest
from unit.pool.pools import Row, S, W, table

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import SimulationError, simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler

MACHINE = Machine.of_watts(8)


def by_name(jobs: JobTable, policy: Policy, budget: BudgetSchedule) -> RunRecord:
    on = NodeMachine.of_counted(MACHINE)
    return simulate(jobs, on, NamedPolicyScheduler(jobs, on, policy, policy.name), budget)


def drawn(seed: int) -> JobTable:
    """Jobs at distinct times, so that no two events coincide."""
    rng = random.Random(seed)
    rows: list[Row] = []
    at_s = 0.0
    for _ in range(40):
        at_s += rng.uniform(1, 60)
        rows.append((at_s, rng.randint(1, 5), rng.uniform(20, 300)))
    return table(*rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [1.0, 0.8], ids=["full", "limited"])
def test_easy_by_name_starts_jobs_when_easy_does(seed: int, share: float) -> None:
    spare_uw = MACHINE.full_uw - MACHINE.idle_total_uw
    budget = BudgetSchedule.constant(MACHINE.idle_total_uw + round(spare_uw * share))
    jobs = drawn(seed)
    own = simulate(jobs, MACHINE, EasyScheduler(), budget)
    record = by_name(jobs, FifoEasy(), budget)
    assert record.policy == "fifo-easy"
    assert np.array_equal(record.columns.start_ns, own.columns.start_ns)
    assert np.array_equal(record.columns.first_cap_uw, own.columns.first_cap_uw)
    assert len(set(record.columns.start_ns - jobs.submit_ns)) > 5, "some must wait"


def test_caps_of_jobs_that_run_may_change() -> None:
    """60 W is 8 * 35 W above idle; half of that is 42.5 W per node."""
    half_uw = (MACHINE.full_uw + MACHINE.idle_total_uw) // 2
    budget = BudgetSchedule(
        steps=(
            BudgetStep(at_ns=0, budget_uw=half_uw),
            BudgetStep(at_ns=20 * S, budget_uw=MACHINE.full_uw),
        )
    )
    record = by_name(table((0, 8, 100), app="LeanMD"), EasyUniform(), budget)
    assert record.columns.first_cap_uw.tolist() == [round(42.5 * W)]
    assert record.peak_committed_uw == MACHINE.full_uw
    assert record.columns.resizes.tolist() == [0]


def test_a_job_that_never_fits_ends_the_run_and_not_in_silence() -> None:
    budget = BudgetSchedule.constant(MACHINE.idle_total_uw + 60 * W)
    with pytest.raises(SimulationError, match="no event remains; the first is job 1 of size 8"):
        by_name(table((0, 8, 100)), FifoEasy(), budget)
