"""Policies on sites with DRAM zones and jobs that request levels never exceed the budget."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.policies.worlds import World
from unit.policies.snapshots import DRAM_CAP_W, W, job, node, snapshot, with_dram

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.power.charge import assigned_uw, dram_range_uw
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.driver.rounds import Rounds, planned
from wattfold.coordinator.policies.equipartition.policy import Equipartition
from wattfold.coordinator.policies.equipartition.settings import EquipartitionSettings
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.port import Scheduled

DRAM: dict[str, Any] = {"dram_levels": 3, "dram_rest_w": 8.0, "dram_work_w": 10.0}
POLICIES = [
    Equipartition(),
    Equipartition(EquipartitionSettings(power="fewer", due=True)),
    FifoEasy(),
    FifoEasy(FifoSettings(size="min")),
    Parm(ParmSettings(solver="greedy")),
    Parm(ParmSettings(solver="greedy", **DRAM)),
    Parm(ParmSettings(solver="greedy", **DRAM, resize_interval_s=20)),
]


@dataclass
class LevelledWorld(World):
    """A world whose nodes have DRAM zones, not always identical, and jobs that request levels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        alike = ((4, 12), (4, 12))
        others = [alike] if self.counted else [alike, alike, ((3, 20),), ()]
        self.nodes = [with_dram(view, *self.rng.choice(others)) for view in self.nodes]

    def submit(self) -> None:
        super().submit()
        view = self.views[JobId(f"j{self.submitted}")]
        if self.rng.random() < 0.4:
            levels = Levels(dram_uw=self.rng.choice([2, 9, 14, 40]) * W)
            self.put(replace(view, spec=replace(view.spec, levels=levels)))


def used_uw(world: World, given_out: list[Assignment]) -> int:
    specs = [view.spec for view in world.nodes]
    return sum(assigned_uw(one, specs, DRAM_CAP_W * W) for one in given_out)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(max_examples=examples(30))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_plans_with_levels_fit_and_do_not_depend_on_what_is_kept(
    policy: Scheduled, seed: int, counted: bool
) -> None:
    world = LevelledWorld(random.Random(seed), counted)
    rounds = Rounds(policy.scheduler())
    for _ in range(8):
        world.step()
        seen = world.snapshot
        rounds.tell(*world.news())
        plan = rounds.plan(seen.now_ns)
        whole = planned(policy, seen, seen.now_ns)
        assert {a.job_id: a for a in plan.assignments} == {a.job_id: a for a in whole.assignments}
        assert (plan.outcome, plan.objective) == (whole.outcome, whole.objective)
        started = [a for a in plan.assignments if world.views[a.job_id].current is None]
        if started:
            assert used_uw(world, list(plan.assignments)) <= seen.spendable_uw
        for one in started:
            asked = world.views[one.job_id].spec.levels
            assert one.levels == one.levels.under(asked)
        world.take(plan)


@pytest.mark.parametrize("policy", [*POLICIES[::2], EasyUniform()], ids=lambda policy: policy.name)
def test_a_level_above_the_standing_cap_takes_power_from_starts(policy: Policy) -> None:
    """Two nodes at their floors, and power for the DRAM of only one job."""
    nodes = [with_dram(node(f"n{i}"), (4, 12)) for i in range(2)]
    fixed_w = sum(view.fixed_uw for view in nodes) / W
    asks = {"levels": Levels(dram_uw=12 * W), "unit": SizeUnit.NODES, "cap_uw": 16 * W}
    jobs = [job(name, 1, 1, **asks) for name in "ab"]
    for extra_w, starts in ((5, 0), (6, 1), (11, 1), (12, 2)):
        plan = policy.propose(snapshot(nodes, jobs, budget_w=fixed_w + extra_w), 0, 5.0)
        assert len(plan.assignments) == starts, extra_w


def test_parm_gives_the_watts_of_idle_memory_to_the_cores() -> None:
    """A code that hardly needs memory gets the lowest DRAM level; another gets the default cap."""
    nodes = [with_dram(node("n0"), (4, 18))]
    nodes = [replace(view, fixed_uw=view.fixed_uw + 12 * W, dram_cap_uw=18 * W) for view in nodes]
    policy = Parm(ParmSettings(dram_levels=5, dram_rest_w=8.0, dram_work_w=10.0))
    levels_w = {}
    for app in ("LeanMD", "Jacobi2D"):
        profile = replace(APPLICATIONS[app], average_parallelism=8.0, sigma=0.5, t1_s=500.0)
        seen = snapshot(nodes, [job("a", 1, 1, unit=SizeUnit.NODES, profile=profile)], 44 + 10)
        (given_out,) = policy.propose(seen, 0, 5.0).assignments
        levels_w[app] = given_out.levels.dram_uw / W
        spent_uw = assigned_uw(given_out, [view.spec for view in nodes], 18 * W)
        assert spent_uw <= seen.spendable_uw
    assert levels_w["LeanMD"] < levels_w["Jacobi2D"]


@given(
    levels=st.integers(1, 16),
    least=st.integers(1, 30 * W),
    span=st.integers(0, 40 * W),
    rest=st.integers(0, 20),
)
def test_levels_offered_are_in_range_and_ascend(
    levels: int, least: int, span: int, rest: int
) -> None:
    settings = ParmSettings(dram_levels=levels, dram_rest_w=float(rest), dram_work_w=10.0)
    found = settings.dram_levels_uw(least, least + span)
    assert list(found) == sorted(set(found))
    assert all(least <= level <= least + span and level > rest * W for level in found)
    assert len(found) <= levels


def test_nodes_of_one_kind_are_offered_what_all_of_them_hold() -> None:
    nodes = [with_dram(node("n0"), (4, 12)), with_dram(node("n1"), (10, 18))]
    assert nodes[0].spec.kind is nodes[1].spec.kind
    jobs = [job(name, 1, 1, unit=SizeUnit.NODES) for name in "ab"]
    plan = Parm(ParmSettings(dram_levels=8, dram_rest_w=2.0, dram_work_w=16.0)).propose(
        snapshot(nodes, jobs), 0, 5.0
    )
    ranges = [dram_range_uw(view.spec) for view in nodes]
    for one in plan.assignments:
        assert max(low for low, _ in ranges) <= one.levels.dram_uw
        assert one.levels.dram_uw <= min(high for _, high in ranges)
