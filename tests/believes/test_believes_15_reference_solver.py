"""GLPK through Pyomo plans a whole simulated log: every round, with the bound that it promises."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
from unit.simulation.parm_pools import W, job_table, parm_on, random_requests

from wattfold.coordinator.policies.parm import choice as parm_choice
from wattfold.coordinator.policies.parm.policy import ParmVersion
from wattfold.coordinator.policies.parm.scheduler import ParmScheduler
from wattfold.coordinator.policies.port import Decision, Scheduler
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine

NODES, JOBS, GAP = 12, 60, 1e-3


class Counted:
    """A scheduler that counts the solvers of its rounds and checks their bounds."""

    def __init__(self, scheduler: ParmScheduler) -> None:
        self._scheduler = scheduler
        self.rounds: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)

    def decide(self, now_ns: int) -> Decision:
        decision = self._scheduler.decide(now_ns)
        found = decision.found
        if found.solver != "none":
            self.rounds[found.solver] += 1
            assert found.objective >= found.bound * (1 - GAP) - 1e-9
        return decision


@pytest.mark.parametrize("solver", ["glpk", "lagrangian"])
def test_a_whole_log_is_planned_by_the_solver_of_the_setting(solver: str) -> None:
    requests = random_requests(random.Random(3), JOBS, NODES)
    table = job_table(sorted(requests, key=lambda request: request.submit_s))
    machine = Machine.of_watts(NODES)
    budget_uw = NODES * machine.busy_uw(machine.cap_uw_min) + 100 * W
    budget = BudgetSchedule(steps=(BudgetStep(at_ns=0, budget_uw=budget_uw),))
    scheduler = parm_on(table, machine, version=ParmVersion.WSE, solver=solver, gap=GAP)
    # A busy machine is no reason for a fallback here, nor is the first use of Pyomo.
    scheduler.deadline_s = 240.0
    parm_choice.warm_up(solver)
    counted = Counted(scheduler)
    record = simulate(table, machine, cast("Scheduler", counted), budget)
    assert np.all(record.columns.end_ns > record.columns.start_ns)
    assert record.over_budget_ns == 0
    assert set(counted.rounds) == {solver}
    assert counted.rounds.total() > JOBS
