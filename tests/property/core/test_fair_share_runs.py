"""Fair share in runs of the simulated service: all power of jobs counts, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from contract.policies.test_limited_jobs import FEW, case_of, table_of

from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import PLACED_STATES, Job
from wattfold.coordinator.core.power.charge import assigned_on_uw
from wattfold.coordinator.core.rules.accounts.fair_share import holder_of
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.messages.driver import SimulatedCluster
from wattfold.simulator.runs.by_messages import run_by_messages
from wattfold.simulator.runs.case import MessageLevel

HOUR = 3600 * 10**9


def power_uw(state: State, job: Job) -> int:
    if job.state not in PLACED_STATES or job.target is None:
        return 0
    specs = {node.node_id: node.spec for node in state.nodes.values() if node.spec is not None}
    return assigned_on_uw(job.target, specs, state.settings.dram_cap_uw)


def check(state: State) -> None:
    sums: Counter[str] = Counter()
    for job in state.jobs.values():
        if job.job_id not in state.index.touched.jobs:
            assert job.shared_uw == power_uw(state, job), job
        sums[holder_of(state, job.spec)] += job.shared_uw
    for holder, use in state.fair_share.uses.items():
        assert use.rate_uw == sums[holder], holder
        assert use.uj >= 0


@pytest.mark.parametrize("name", ["equipartition", "parm-wse", "fifo-easy"])
@pytest.mark.parametrize("seed", range(2))
def test_the_power_of_every_job_counts_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    seen: list[float] = []
    post = SimulatedCluster.post

    def checked(self: SimulatedCluster, event: ev.Event) -> None:
        post(self, event)
        check(self.core.state)
        seen.extend(self.core.state.fair_share.factors.values())

    monkeypatch.setattr(SimulatedCluster, "post", checked)
    entry = next(one for one in registry.entries() if one.variant.name == name)
    case = replace(case_of(entry), seed=seed, limits=replace(FEW, half_life_ns=6 * HOUR))
    full_uw = case.budget.least_uw
    lower = BudgetStep(at_ns=3 * HOUR, budget_uw=full_uw * 7 // 8, deadline_ns=600 * 10**9)
    steps = (BudgetStep(at_ns=0, budget_uw=full_uw), lower)
    level = MessageLevel(cores_per_node=4, lease_s=40_000, lose=0.02, refuse=0.02)
    case = replace(case, messages=level, budget=BudgetSchedule(steps=steps))
    record = run_by_messages(case, table_of(case), level)
    assert (record.columns.end_ns > 0).all()
    assert min(seen) < 1, "no factor was below 1"
