"""Policies on sites with GPUs, charged from floors to levels, and the choices of PARM."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import product

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.policies.worlds import World
from unit.policies.snapshots import W, faults, job, snapshot
from unit.policies.training_jobs import V100, gpu_node, training

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import JobView, NodeView, Policy, Snapshot
from wattfold.coordinator.core.power.charge import assigned_uw
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.constraint.policy import Constraint
from wattfold.coordinator.policies.driver.rounds import Rounds, planned
from wattfold.coordinator.policies.equipartition.policy import Equipartition
from wattfold.coordinator.policies.fifo.conservative import Conservative
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings, ParmVersion
from wattfold.coordinator.policies.port import Scheduled

POLICIES: list[Policy] = [
    FifoEasy(),
    FifoEasy(FifoSettings(size="min")),
    EasyUniform(),
    Conservative(),
    Equipartition(),
    Constraint(),
    Parm(ParmSettings(solver="greedy")),
    Parm(ParmSettings(solver="greedy", gpu_levels=3)),
    Parm(ParmSettings(solver="greedy", gpu_levels=4, resize_interval_s=20)),
]


@dataclass
class GpuWorld(World):
    """A world with GPUs in some nodes, and jobs that request GPUs with or without levels."""

    budget_w: float = 700.0

    def __post_init__(self) -> None:
        super().__post_init__()
        models = ["V100"] if self.counted else ["V100", "T4", ""]
        self.nodes = [self.with_gpus(view, self.rng.choice(models)) for view in self.nodes]

    def with_gpus(self, view: NodeView, model: str) -> NodeView:
        if not model:
            return view
        made = gpu_node(view.spec.node_id, model, tdp_w={"V100": 250, "T4": 70}[model])
        spec = replace(made.spec, cpus=view.spec.cpus)
        return replace(made, spec=spec)

    def submit(self) -> None:
        super().submit()
        view = self.views[JobId(f"j{self.submitted}")]
        gpus = self.rng.choice([0, 1, 2])
        gpu_uw = self.rng.choice([0, 0, 50, 130, 300]) * W if gpus else 0
        spec = replace(view.spec, gpus=gpus, levels=Levels(gpu_uw=gpu_uw))
        self.put(replace(view, spec=spec))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_plans_with_gpus_are_sound_and_do_not_depend_on_what_is_kept(
    policy: Policy, seed: int, counted: bool
) -> None:
    world = GpuWorld(random.Random(seed), counted)
    rounds = Rounds(policy.scheduler()) if isinstance(policy, Scheduled) else None
    for _ in range(6):
        world.step()
        seen = world.snapshot
        plan = policy.propose(seen, seen.now_ns, 5.0)
        started = [a for a in plan.assignments if world.views[a.job_id].current is None]
        if started:
            assert faults(plan, seen) == []
        if rounds is not None and isinstance(policy, Scheduled):
            rounds.tell(*world.news())
            kept = rounds.plan(seen.now_ns)
            whole = planned(policy, seen, seen.now_ns)
            assert {a.job_id: a for a in kept.assignments} == {
                a.job_id: a for a in whole.assignments
            }
        for one in started:
            assert one.levels == one.levels.under(world.views[one.job_id].spec.levels)
        world.take(plan)


# ---- PARM ----------------------------------------------------------------------------------------


def small_site(seed: int) -> Snapshot:
    """A few nodes with GPUs of one model, jobs with and without GPUs, and training jobs."""
    rng = random.Random(seed)
    nodes = [gpu_node(f"n{number}") for number in range(rng.randint(1, 2))]
    jobs: list[JobView] = []
    for number in range(rng.randint(1, 4)):
        name, age_s = f"j{number}", -rng.randint(0, 300)
        if rng.random() < 0.5:
            curve = rng.choice([V100, GpuCurve(static_w=60, full_w=220, knee=0.6, beta=0.5), None])
            whole_s = rng.uniform(50, 500)
            seconds = {("V100", 1): whole_s, ("V100", 2): whole_s * 0.6}
            high = rng.randint(1, 2)
            made = training(
                name, seconds, curve=curve, high=high, time_s=whole_s, submitted_s=age_s
            )
        else:
            made = job(
                name,
                1,
                rng.randint(1, 3),
                unit=SizeUnit.CORES,
                kind=JobKind.MOLDABLE,
                gpus=rng.choice([0, 0, 1]),
                time_s=rng.choice([40, 200]),
                submitted_s=age_s,
            )
        jobs.append(made)
    fixed_w = sum(view.fixed_uw for view in nodes) / W
    return snapshot(nodes, jobs, budget_w=fixed_w + rng.randint(0, 500))


def exact(levels: int) -> Parm:
    return Parm(
        ParmSettings(gap=0.0, solver="lagrangian", gpu_levels=levels, levels=2),
        version=ParmVersion.WSE,
    )


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**6))
def test_parm_chooses_the_best_of_all_sizes_caps_and_levels(seed: int) -> None:
    seen, policy = small_site(seed), exact(3)
    cores = sum(len(view.spec.cpus) for view in seen.nodes)
    best = 0.0
    menus = [[(0, 0, 0.0), *_rows(menu.options, menu.weight)] for menu in policy.menus(seen, 0)]
    for combined in product(*menus):
        units, power_uw, worth = map(sum, zip(*combined, strict=True))
        if units <= cores and power_uw <= seen.spendable_uw:
            best = max(best, worth)
    plan = policy.propose(seen, 0, 10.0)
    assert plan.objective == pytest.approx(best, rel=2e-6, abs=1e-9)


def _rows(options, weight: float) -> list[tuple[int, int, float]]:
    return [(one.units, one.power_uw, weight * one.speedup) for one in options]


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**6), levels=st.integers(2, 6))
def test_with_levels_parm_is_never_worth_less_than_without(seed: int, levels: int) -> None:
    seen = small_site(seed)
    without, with_levels = (exact(count).propose(seen, 0, 10.0) for count in (1, levels))
    assert with_levels.objective >= without.objective * (1 - 2e-6)
    for one in with_levels.assignments:
        assert one.levels.gpu_uw == 0 or 125 * W <= one.levels.gpu_uw < 250 * W


def test_parm_runs_two_jobs_at_lower_levels_where_one_fits_at_the_greatest() -> None:
    nodes = [gpu_node("n0")]
    jobs = [training(name, {("V100", 1): 100.0}, curve=V100, high=1, time_s=100) for name in "ab"]
    budget_w = nodes[0].fixed_uw / W + 170
    for levels, started in ((1, 1), (3, 2)):
        seen = snapshot(nodes, jobs, budget_w=budget_w)
        plan = Parm(ParmSettings(gpu_levels=levels)).propose(seen, 0, 5.0)
        assert len(plan.assignments) == started
        charged_uw = sum(assigned_uw(one, [nodes[0].spec]) for one in plan.assignments)
        assert charged_uw <= seen.spendable_uw


def test_the_fitted_curve_decides_and_work_that_waits_for_its_host_goes_lower() -> None:
    """Two jobs of equal run time, with power for only one of them at the maximum limit."""
    nodes = [gpu_node("n0")]
    host_bound = GpuCurve(static_w=40, full_w=240, knee=0.84, beta=0.95)
    jobs = [
        training(name, {("V100", 1): 100.0}, curve=curve, high=1, time_s=100, cap_uw=45 * W)
        for name, curve in (("a", V100), ("b", host_bound))
    ]
    budget_w = nodes[0].fixed_uw / W + 8 + 150 + 30
    plan = Parm(ParmSettings(gpu_levels=5)).propose(
        snapshot(nodes, jobs, budget_w=budget_w), 0, 5.0
    )
    levels_w = {one.job_id: (one.levels.gpu_uw or 250 * W) / W for one in plan.assignments}
    assert levels_w["b"] == 125
    assert levels_w["a"] > 125


def test_a_job_is_not_offered_nodes_without_the_gpus_it_asks_for() -> None:
    nodes = [gpu_node("n0", "T4", 1, tdp_w=70, max_w=45), gpu_node("n1", gpus=2)]
    asked = job("a", 1, 1, unit=SizeUnit.NODES, gpus=2)
    (given_out,) = Parm().propose(snapshot(nodes, [asked]), 0, 5.0).assignments
    assert [share.node_id for share in given_out.shares] == ["n1"]
