"""The power charge: monotone, clipped, and equal for policies, applier and ledger."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.core.stage import NODES, Stage, W, counted_as, job_spec, node_spec, package

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.node import NodeKind, NodeSpec
from wattfold.coordinator.core.model.plan import Plan, Policy
from wattfold.coordinator.core.power.charge import (
    CAP_STEP_UW,
    assigned_uw,
    drawing_uw,
    held_uw,
    node_uw,
    on_node_uw,
    reached_uw,
    share_uw,
)
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings

LEVELS = st.integers(-10 * W, 700 * W)


@st.composite
def kinds(draw: st.DrawFn) -> NodeKind:
    floor_uw = draw(st.integers(-50 * W, 200 * W))
    most_uw = floor_uw + draw(st.integers(0, 400 * W))
    least_uw = draw(st.integers(0, max(most_uw, 0)))
    cores = draw(st.integers(1, 256))
    return NodeKind(cores=cores, floor_uw=floor_uw, most_uw=most_uw, least_uw=least_uw)


@given(kind=kinds(), level=LEVELS, more=st.integers(0, 300 * W), cores=st.integers(1, 256))
def test_more_of_a_level_or_a_node_is_never_charged_less(
    kind: NodeKind, level: int, more: int, cores: int
) -> None:
    cores = min(cores, kind.cores)
    here = share_uw(kind, cores, level)
    assert here <= share_uw(kind, cores, level + more)
    assert here <= share_uw(kind, kind.cores, level) == node_uw(kind, level)
    if cores > 1:
        assert share_uw(kind, cores - 1, level) <= here


@given(
    kind=kinds(),
    power=st.integers(0, 900 * W),
    unit=st.sampled_from(SizeUnit),
    size=st.integers(1, 9),
    unit_cores=st.integers(1, 16),
)
def test_a_job_has_the_power_it_is_predicted_to_draw_at_the_least_level_that_gives_it(
    kind: NodeKind, power: int, unit: SizeUnit, size: int, unit_cores: int
) -> None:
    spec = replace(
        job_spec(), unit=unit, size_min=size, size_max=size, unit_cores=min(unit_cores, kind.cores)
    )
    level_uw = drawing_uw(spec, kind, power)
    cores = size * {SizeUnit.NODES: kind.cores, SizeUnit.CORES: 1}.get(unit, spec.unit_cores)
    enough = Fraction(cores * (level_uw - kind.floor_uw), kind.cores) >= power
    assert enough or level_uw == kind.most_uw
    less_uw = level_uw - 1
    if less_uw >= kind.lowest_uw:
        assert Fraction(cores * (less_uw - kind.floor_uw), kind.cores) < power


@given(kind=kinds(), level=LEVELS, cores=st.integers(1, 256))
def test_a_share_is_charged_between_nothing_and_what_the_node_can_take(
    kind: NodeKind, level: int, cores: int
) -> None:
    cores = min(cores, kind.cores)
    held = held_uw(kind, level)
    assert kind.lowest_uw <= held <= kind.most_uw
    assert held == level or level < kind.lowest_uw or level > kind.most_uw
    exact = Fraction(cores * (held - kind.floor_uw), kind.cores)
    assert exact - 1 < share_uw(kind, cores, level) <= exact
    assert kind.floor_uw + node_uw(kind, level) == held
    assert node_uw(kind, level) <= kind.most_uw - kind.floor_uw


@given(kind=kinds(), level=LEVELS, cores=st.integers(1, 256))
def test_jobs_reach_the_level_that_was_charged_for_them(
    kind: NodeKind, level: int, cores: int
) -> None:
    cores = min(cores, kind.cores)
    reached = reached_uw(kind, cores, kind.floor_uw + share_uw(kind, cores, level))
    held = held_uw(kind, level)
    assert held - -(-kind.cores // cores) <= reached <= held


def unlike_specs(rng: random.Random) -> list[NodeSpec]:
    """Nodes of a few kinds in any order; the ranges are multiples of the cap step."""
    models = []
    for _ in range(rng.randint(1, 4)):
        zones = []
        for number in range(rng.choice([1, 1, 2])):
            floor_w = rng.randint(5, 120)
            most_w = floor_w + rng.choice([0, rng.randint(1, 400)])
            zones.append(package(f"package-{number}", floor_w=floor_w, max_w=most_w))
        models.append((rng.choice([1, 2, 4, 7, 16]), rng.randint(0, 60), tuple(zones)))
    picks = [rng.choice(models) for _ in range(rng.randint(1, 9))]
    return [
        node_spec(f"n{i}", cores=cores, base_w=base_w, zones=zones)
        for i, (cores, base_w, zones) in enumerate(picks)
    ]


def stage_of(specs: list[NodeSpec], budget_uw: int) -> Stage:
    """A stage with all of the nodes admitted, at their floors."""
    stage = Stage(budget_uw / W)
    for spec in specs:
        stage.register(spec.node_id)
        caps = tuple(
            reports.ZoneReading(zone=z.name, cap_uw=z.floor_uw, error="") for z in spec.zones
        )
        stage.send(reports.NodeConnected(spec=spec, caps=caps, processes=()))
        request = stage.core.state.nodes[spec.node_id].lease_request
        stage.send(reports.LeaseRenewed(node_id=spec.node_id, request_id=request, caps=caps))
    return stage


def commit(stage: Stage, plan: Plan) -> None:
    """Accept a plan, start its jobs, and confirm every requested cap until none remains."""
    stage.plan(*plan.assignments)
    state = stage.core.state
    for job in list(state.jobs.values()):
        for rank in job.ranks.values():
            stage.launched(rank.node_id, job.job_id)
    for _ in range(3 * len(state.nodes)):
        for node_id, node in state.nodes.items():
            account = state.ledger.accounts[node_id]
            sent = {n: z.pending_uw for n, z in account.zones.items() if z.pending_uw is not None}
            if sent:
                caps = tuple(
                    reports.ZoneReading(zone=name, cap_uw=cap, error="")
                    for name, cap in sent.items()
                )
                stage.send(
                    reports.CapsAnswered(node_id=node_id, request_id=node.caps_request, caps=caps)
                )


POLICIES: list[Policy] = [
    FifoEasy(),
    FifoEasy(backfill=False),
    FifoEasy(FifoSettings(size="min")),
    Parm(),
    Parm(ParmSettings(solver="greedy")),
    Parm(version=ParmVersion.NOSE),
    Parm(version=ParmVersion.NOMM),
]


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
def test_with_all_the_power_as_many_jobs_run_as_there_are_nodes(seed: int, policy: Policy) -> None:
    """The ledger commits, zone by zone, all that the nodes can take or the plan assigns."""
    specs = unlike_specs(random.Random(seed))
    budget_uw = sum(spec.base_power_uw + spec.package_max_uw for spec in specs)
    stage = stage_of(specs, budget_uw)
    for index in range(len(specs)):
        stage.submit(f"j{index}", job_spec(1, 1, kind=JobKind.RIGID, unit=NODES))
    stage.need_plan()
    seen = snapshot(stage.core.state, 0)
    plan = policy.propose(seen, 0, 10.0)
    assert len(plan.assignments) == len(specs), [w.reason for w in plan.waiting]
    commit(stage, plan)
    state = stage.core.state
    assert all(state.jobs[a.job_id].target == a for a in plan.assignments), "one was refused"
    charged_uw = sum(assigned_uw(a, specs) for a in plan.assignments)
    lost_uw = CAP_STEP_UW * sum(len(spec.packages) for spec in specs)
    fixed_uw = sum(view.fixed_uw for view in seen.nodes)
    committed_uw = state.ledger.committed_uw
    assert fixed_uw + charged_uw - lost_uw < committed_uw <= fixed_uw + charged_uw
    if isinstance(policy, FifoEasy):
        assert committed_uw == budget_uw


@settings(max_examples=examples(150))
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES), share=st.floats(0, 1))
def test_what_fits_for_a_policy_fits_for_the_applier(
    seed: int, policy: Policy, share: float
) -> None:
    """Any budget and jobs of cores, nodes and units, on heterogeneous nodes."""
    rng = random.Random(seed)
    specs = unlike_specs(rng)
    least_uw = sum(spec.base_power_uw + spec.package_floor_uw for spec in specs)
    most_uw = sum(spec.base_power_uw + spec.package_max_uw for spec in specs)
    stage = stage_of(specs, least_uw + int((most_uw - least_uw) * share))
    for index in range(rng.randint(1, 8)):
        low = rng.randint(1, 3)
        spec = job_spec(low, low + rng.choice([0, 3]), **counted_as(rng, [JobKind.MALLEABLE]))
        stage.submit(f"j{index}", spec)
    stage.need_plan()
    plan = policy.propose(snapshot(stage.core.state, 0), 0, 10.0)
    commit(stage, plan)
    state = stage.core.state
    assert all(state.jobs[a.job_id].target == a for a in plan.assignments), "one was refused"
    planned_uw = sum(assigned_uw(a, specs) for a in plan.assignments)
    above_uw = sum(
        zone.charge_uw - next(z.floor_uw for z in spec.zones if z.name == name)
        for spec in specs
        for name, zone in state.ledger.accounts[spec.node_id].zones.items()
    )
    lost_uw = CAP_STEP_UW * sum(len(spec.packages) for spec in specs)
    assert planned_uw - lost_uw < above_uw <= planned_uw or above_uw == planned_uw == 0


@given(
    seed=st.integers(0, 10**9),
    cuts=st.lists(st.tuples(st.integers(1, 16), LEVELS), min_size=1, max_size=6),
)
def test_jobs_that_share_a_node_are_charged_no_more_than_it_can_take(
    seed: int, cuts: list[tuple[int, int]]
) -> None:
    (spec, *_) = unlike_specs(random.Random(seed))
    assignments, first = [], 0
    for number, (size, level) in enumerate(cuts):
        cpus = CpuSet.of(range(first, min(first + size, len(spec.cpus))))
        first += size
        if cpus:
            share = Share(node_id=spec.node_id, cpus=cpus)
            job = JobId(str(number))
            one = Assignment(job_id=job, size=len(cpus), cap_uw=level, shares=(share,))
            assignments.append(one)
    together_uw = on_node_uw(spec, assignments)
    assert together_uw == sum(assigned_uw(one, [spec]) for one in assignments)
    assert 0 <= together_uw <= spec.package_max_uw - spec.package_floor_uw
