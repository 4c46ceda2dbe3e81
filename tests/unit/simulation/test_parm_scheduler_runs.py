"""PARM in whole simulations: every job ends, even if the budget falls below the running power."""

from __future__ import annotations

import random

import numpy as np
import pytest
from unit.simulation.parm_pools import S, W, job_table, parm_on, random_requests

from wattfold.coordinator.policies.parm.policy import ParmVersion
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine

NODES = 12


@pytest.mark.parametrize("variant", list(ParmVersion))
@pytest.mark.parametrize("price", [False, True])
def test_a_run_under_a_budget_that_falls_and_rises(variant: ParmVersion, price: bool) -> None:
    table = job_table(
        sorted(random_requests(random.Random(7), 40, NODES), key=lambda r: r.submit_s)
    )
    machine = Machine.of_watts(NODES)
    full_uw, least_uw = machine.full_uw, NODES * machine.busy_uw(machine.cap_uw_min)
    budgets = ((0, full_uw), (300, least_uw), (900, least_uw + 100 * W), (2000, full_uw))
    budget = BudgetSchedule(steps=tuple(BudgetStep(at_ns=s * S, budget_uw=uw) for s, uw in budgets))
    scheduler = parm_on(table, machine, version=variant, price_resizes=price)
    record = simulate(table, machine, scheduler, budget)
    assert np.all(record.columns.end_ns > record.columns.start_ns)
    assert record.over_budget_ns == 0
    assert len(record.solver_ns) >= record.rounds > 0
    if variant is ParmVersion.WSE:
        assert record.columns.resizes.sum() > 0
        assert not np.any(record.columns.resizes[~table.malleable])
    else:
        assert not np.any(record.columns.resizes)
