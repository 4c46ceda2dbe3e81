"""Heterogeneous nodes are used according to their own ranges; a job that fits a node starts."""

from __future__ import annotations

import pytest
from unit.core.stage import NODES, Stage, job_spec, node_spec, package
from unit.policies.snapshots import S, W, caps_w, faults, job, node, sizes, snapshot

from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.coordinator.core.model.plan import NodeView, Policy
from wattfold.coordinator.core.rules.snapshot import snapshot as seen_by_policies
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.simulator.messages.driver import SimulatedCluster
from wattfold.simulator.messages.work import Work

SMALL, LARGE = 16, 16
BASE_W, SMALL_W, LARGE_W = 40, 300, 480
BUDGET_W = SMALL * (BASE_W + SMALL_W) + LARGE * (BASE_W + LARGE_W)
POLICIES: list[Policy] = [
    FifoEasy(),
    FifoEasy(backfill=False),
    FifoEasy(FifoSettings(size="min")),
    Parm(),
    Parm(ParmSettings(solver="greedy")),
    Parm(version=ParmVersion.NOSE),
    Parm(version=ParmVersion.NOMM),
]


def small(name: str) -> NodeView:
    return node(name, base_w=BASE_W, floor_w=75, max_w=SMALL_W)


def large(name: str) -> NodeView:
    return node(name, base_w=BASE_W, floor_w=120, max_w=LARGE_W)


def machine() -> list[NodeView]:
    """Small and large nodes alternate, so that the first node determines nothing."""
    pairs = [(small(f"s{i}"), large(f"l{i}")) for i in range(SMALL)]
    return [one for pair in pairs for one in pair]


def no_curve(view: NodeView) -> NodeView:
    spec = view.spec
    plain = NodeSpec(
        node_id=spec.node_id, cpus=spec.cpus, zones=spec.zones, base_power_uw=spec.base_power_uw
    )
    return NodeView(spec=plain, fixed_uw=view.fixed_uw)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.name}-{getattr(p, 'solver', '')}")
def test_all_jobs_run_and_every_node_gets_what_it_can_take(policy: Policy) -> None:
    nodes = [no_curve(view) for view in machine()]
    jobs = [job(f"j{i}", 1, 1, unit=NODES, kind=JobKind.RIGID) for i in range(SMALL + LARGE)]
    seen = snapshot(nodes, jobs, budget_w=BUDGET_W)
    plan = policy.propose(seen, 0, 10.0)
    assert faults(plan, seen) == []
    assert len(plan.assignments) == SMALL + LARGE
    levels = caps_w(plan)
    on = {a.shares[0].node_id: levels[a.job_id] for a in plan.assignments}
    assert {name: w for name, w in on.items() if name.startswith("s")} == {
        f"s{i}": SMALL_W for i in range(SMALL)
    }
    assert {name: w for name, w in on.items() if name.startswith("l")} == {
        f"l{i}": LARGE_W for i in range(LARGE)
    }


@pytest.mark.parametrize("policy", [FifoEasy(), Parm()], ids=lambda p: p.name)
def test_a_job_that_fits_a_small_node_is_not_told_never(policy: Policy) -> None:
    """One large and four small nodes.

    The budget feeds a small node at its maximum, but not a large node.
    """
    nodes = [no_curve(large("l0")), *(no_curve(small(f"s{i}")) for i in range(4))]
    idle_w = sum(view.fixed_uw for view in nodes) / 1e6
    seen = snapshot(nodes, [job("a", 1, 1, unit=NODES)], budget_w=idle_w + SMALL_W - 75)
    plan = policy.propose(seen, 0, 10.0)
    assert plan.waiting == ()
    assert sizes(plan) == {"a": 1}
    assert faults(plan, seen) == []


def stage_of(specs: list[NodeSpec], budget_w: float) -> Stage:
    stage = Stage(budget_w)
    for spec in specs:
        stage.register(spec.node_id)
        stage.connect(spec, cap_w=spec.package_floor_uw / 1e6)
        stage.leased(spec.node_id, cap_w=spec.package_floor_uw / 1e6)
    return stage


def one_node_job() -> JobSpec:
    return job_spec(1, 1, kind=JobKind.RIGID, unit=NODES)


@pytest.mark.parametrize("policy", [FifoEasy(), Parm()], ids=lambda p: p.name)
def test_the_core_takes_the_whole_plan_and_commits_the_whole_budget(policy: Policy) -> None:
    small_zone, large_zone = package(floor_w=75, max_w=300), package(floor_w=120, max_w=480)
    specs = [node_spec(f"s{i}", base_w=BASE_W, zones=(small_zone,)) for i in range(3)]
    specs += [node_spec(f"l{i}", base_w=BASE_W, zones=(large_zone,)) for i in range(3)]
    budget_w = sum(spec.base_power_uw + spec.package_max_uw for spec in specs) / 1e6
    stage = stage_of(specs, budget_w)
    for index in range(len(specs)):
        stage.submit(f"j{index}", one_node_job())
    stage.need_plan()
    plan = policy.propose(seen_by_policies(stage.core.state, 0), 0, 10.0)
    stage.plan(*plan.assignments)
    on = {a.shares[0].node_id: a.job_id for a in plan.assignments}
    for spec in specs:
        stage.launched(spec.node_id, on[spec.node_id])
        stage.confirm(spec.node_id)
    assert stage.committed_w == budget_w
    assert stage.charge_w("s0") == BASE_W + SMALL_W
    assert stage.charge_w("l0") == BASE_W + LARGE_W


@pytest.mark.parametrize("policy", [FifoEasy(), Parm()], ids=lambda p: p.name)
def test_a_simulated_cluster_of_unlike_nodes_is_used_whole(policy: Policy) -> None:
    """By messages, with agents: every job starts immediately, and all of the power is committed."""
    specs = [no_curve(view).spec for view in machine()]
    cluster = SimulatedCluster(specs, policy, BUDGET_W * W)
    cluster.run(5 * S)
    for index in range(SMALL + LARGE):
        work = Work(run_ns=1000 * S, asked_cores=4)
        cluster.submit(f"j{index}", one_node_job(), work)
    cluster.run(60 * S)
    assert cluster.truth.sums.running == SMALL + LARGE
    assert cluster.core.state.ledger.committed_uw == BUDGET_W * W
    assert cluster.truth.sums.bound_uw == BUDGET_W * W
    assert cluster.meter.bound_over_ns == 0
