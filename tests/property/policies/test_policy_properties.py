"""Policies on random machines and jobs: always valid, and optimal in small cases."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from property.policies.easy_reference import Request, easy
from unit.policies.snapshots import S, W, faults, held, job, node, sizes, snapshot

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import JobView, NodeView, Policy, Snapshot
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes

PROFILES = list(APPLICATIONS.values())


def whole_node_jobs(rng: random.Random, nodes: int) -> list[JobView]:
    jobs: list[JobView] = []
    free = nodes
    for index in range(rng.randint(1, 3)):
        profile = replace(rng.choice(PROFILES), t1_s=rng.uniform(10, 1000), app="app")
        low = rng.randint(1, nodes)
        high = rng.randint(low, nodes)
        runs = low <= free and rng.random() < 0.4
        current = None
        if runs:
            places = [f"n{i}" for i in range(nodes - free, nodes - free + low)]
            current = held(f"j{index}", *places, cap_w=30)
            free -= low
        jobs.append(
            job(
                f"j{index}",
                low,
                high,
                unit=SizeUnit.NODES,
                profile=profile,
                priority=rng.choice([0.5, 1, 4]),
                submitted_s=rng.uniform(0, 90),
                done=rng.uniform(0, 0.9) if runs else 0,
                started_s=0 if runs else -1,
                current=current,
            )
        )
    return jobs


def best_value(seen: Snapshot, policy: Parm) -> float:
    """Best value of Eq. 1-8 over all choices, written from the equations and not from the code."""
    nodes = len(seen.nodes)
    least_w = seen.nodes[0].spec.package_floor_uw / W
    greatest_w = seen.nodes[0].spec.package_max_uw / W
    base_w = seen.nodes[0].spec.base_power_uw / W
    menus = []
    for view in seen.jobs:
        profile = view.profile
        assert profile is not None
        caps = sorted(
            {
                int(w * 8 + 1e-6) / 8
                for w in profile.levels_w(policy.settings.levels, least_w, greatest_w)
            }
        )
        counts = list(range(view.spec.size_min, min(view.spec.size_max, nodes) + 1))
        if view.current is not None:
            counts = [view.current.size]
        elif policy.version is ParmVersion.NOMM:
            counts = counts[:1]
        slowest_s = profile.time_s(view.spec.size_min, caps[0])
        waited_s = (seen.now_ns - view.submitted_ns) / S
        age_s = slowest_s * (1 - view.done) + waited_s
        weight = age_s**policy.settings.alpha * view.spec.priority
        menu: list[tuple[int, float, float]] = [] if view.current else [(0, 0.0, 0.0)]
        for n, p in product(counts, caps):
            menu.append((n, p, weight * slowest_s / profile.time_s(n, p)))
        menus.append(menu)
    best = 0.0
    for choice in product(*menus):
        used = sum(n for n, _, _ in choice)
        power_w = sum(n * (p + base_w) for n, p, _ in choice) + (nodes - used) * (least_w + base_w)
        if used <= nodes and power_w <= seen.budget_uw / W + 1e-9:
            best = max(best, sum(value for _, _, value in choice))
    return best


@settings(max_examples=examples(120))
@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 3),
    spare_w=st.floats(0, 120),
    variant=st.sampled_from(ParmVersion),
)
def test_parm_finds_the_optimum_of_the_paper(
    seed: int, nodes: int, spare_w: float, variant: ParmVersion
) -> None:
    rng = random.Random(seed)
    jobs = whole_node_jobs(rng, nodes)
    machine = [node(f"n{i}", base_w=20, floor_w=30, max_w=60) for i in range(nodes)]
    needed_w = sum(v.current.size * 5 for v in jobs if v.current)
    seen = snapshot(machine, jobs, budget_w=nodes * 50 + needed_w + spare_w, now_s=100)
    policy = Parm(ParmSettings(levels=4, gap=0.0), version=variant)
    out = policy.propose(seen, seen.now_ns, 5.0)
    assert faults(out, seen) == []
    # Eq. 5 of the reference uses floats in watts; the code sums integers.
    assert out.objective == pytest.approx(best_value(seen, policy), rel=1e-6)
    for assignment in out.assignments:
        view = next(v for v in jobs if v.job_id == assignment.job_id)
        if view.current is not None:
            assert assignment.shares == view.current.shares


def random_machine(rng: random.Random) -> list[NodeView]:
    machine = []
    for index in range(rng.randint(1, 5)):
        cores = rng.choice([1, 2, 4, 8])
        blocked = str(rng.randrange(cores)) if rng.random() < 0.2 else ""
        floor_w = rng.choice([9, 16, 30])
        machine.append(
            node(
                f"n{index}",
                cores,
                base_w=rng.choice([5, 20]),
                floor_w=floor_w,
                max_w=floor_w + rng.choice([0, 15, 60]),
                blocked=blocked,
                memory=rng.choice([0, 4, 8]),
                gpus=rng.choice([0, 1, 3]),
                features=rng.choice([(), ("big",)]),
            )
        )
    return machine


def random_requests(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {}
    return {
        "memory_bytes": rng.choice([0, 1, 3, 8]),
        "gpus": rng.choice([0, 0, 1, 2]),
        "features": rng.choice([(), (), ("big",)]),
    }


def in_units(rng: random.Random, view: JobView) -> JobView:
    """The same job, counted in units instead of cores."""
    spec = replace(
        view.spec,
        unit=SizeUnit.UNITS,
        unit_cores=rng.choice([1, 1, 2, 3]),
        spread=rng.choice(list(Spread)),
        kind=rng.choice([JobKind.RIGID, JobKind.MOLDABLE]),
    )
    return replace(view, spec=spec)


def random_job(rng: random.Random, units: random.Random, name: str, room: Room) -> JobView:
    whole = rng.random() < 0.25
    low = rng.randint(1, 3)
    view = job(
        name,
        low,
        low + rng.choice([0, 0, 1, 6]),
        unit=SizeUnit.NODES if whole else SizeUnit.CORES,
        kind=rng.choice(list(JobKind)),
        exclusive=not whole and rng.random() < 0.2,
        priority=rng.choice([0.1, 1, 10]),
        submitted_s=rng.uniform(0, 100),
        time_s=rng.choice([0, 5, 500]),
        cap_uw=rng.choice([0, 0, 31 * W]),
        **random_requests(rng),
    )
    if not whole and units.random() < 0.3:
        view = in_units(units, view)
    if view.spec.kind is JobKind.RIGID:
        view = replace(view, spec=replace(view.spec, size_max=low))
    shares = room.find(view.spec, low) if rng.random() < 0.5 else None
    if shares is None:
        return view
    cap_uw = view.spec.cap_uw or rng.choice([31, 40]) * W
    room.take(shares, room.power_of(shares, cap_uw), takes_whole_nodes(view.spec))
    current = Assignment(
        job_id=view.job_id,
        size=low,
        cap_uw=cap_uw,
        shares=shares,
        expected_total_s=rng.choice([0.0, 80.0]),
    )
    return replace(
        view,
        current=current,
        started_ns=50 * S,
        done=rng.uniform(0, 0.9),
        resized_ns=rng.choice([-1, 99 * S]),
        movable=rng.random() < 0.7,
    )


def random_snapshot(seed: int) -> Snapshot:
    """A machine whose running jobs fit the budget, as in the core."""
    rng = random.Random(seed)
    machine = random_machine(rng)
    room = Room(machine, 0)
    units = random.Random(seed + 1)  # A separate generator, so that other jobs stay the same.
    jobs = [random_job(rng, units, f"j{i}", room) for i in range(rng.randint(0, 8))]
    fixed_uw = sum(view.fixed_uw for view in machine)
    spare_w = rng.choice([0, 5, 40, 500])
    return snapshot(
        machine,
        jobs,
        budget_w=(fixed_uw - room.power_uw) / W + spare_w + 7,
        reserved_w=7,
        now_s=100,
    )


POLICIES: list[Policy] = [
    Parm(),
    Parm(ParmSettings(solver="greedy", resize_interval_s=0)),
    Parm(ParmSettings(solver="greedy"), version=ParmVersion.NOSE),
    Parm(ParmSettings(solver="greedy"), version=ParmVersion.NOMM),
    FifoEasy(),
    FifoEasy(FifoSettings(size="min")),
    FifoEasy(backfill=False),
]


@settings(max_examples=examples(400))
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(POLICIES))
# A level below the floor of some of the nodes of the job.
@example(seed=2280518, policy=Parm())
def test_every_plan_can_be_made_real(seed: int, policy: Policy) -> None:
    seen = random_snapshot(seed)
    out = policy.propose(seen, seen.now_ns, 5.0)
    assert faults(out, seen) == []


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 10**6), spare_w=st.floats(0, 100), more_w=st.floats(0, 100))
def test_more_power_is_never_worth_less(seed: int, spare_w: float, more_w: float) -> None:
    rng = random.Random(seed)
    jobs = [v for v in whole_node_jobs(rng, 3) if v.current is None]
    machine = [node(f"n{i}", base_w=20, floor_w=30, max_w=60) for i in range(3)]
    policy = Parm(ParmSettings(gap=0.0))
    values = [
        policy.propose(snapshot(machine, jobs, budget_w=w, now_s=100), 100 * S, 5.0).objective
        for w in (150 + spare_w, 150 + spare_w + more_w)
    ]
    assert values[1] >= values[0] * (1 - 1e-9)


@settings(max_examples=examples(400))
@given(
    nodes=st.integers(1, 6),
    running=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 20)), max_size=3),
    waiting=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 25)), max_size=6),
)
def test_fifo_easy_is_easy(
    nodes: int, running: list[tuple[int, int]], waiting: list[tuple[int, int]]
) -> None:
    free = nodes
    views: list[JobView] = []
    ends: list[tuple[int, int]] = []
    for index, (size, end_s) in enumerate(running):
        if size <= free:
            places = [f"n{i}" for i in range(nodes - free, nodes - free + size)]
            name = f"r{index}"
            views.append(
                job(
                    name,
                    size,
                    size,
                    unit=SizeUnit.NODES,
                    time_s=end_s,
                    current=held(name, *places),
                    started_s=0,
                )
            )
            ends.append((end_s, size))
            free -= size
    for index, (size, time_s) in enumerate(waiting):
        view = job(f"w{index}", size, size, unit=SizeUnit.NODES, time_s=time_s, submitted_s=0)
        views.append(view)
    seen = snapshot([node(f"n{i}") for i in range(nodes)], views)
    out = FifoEasy().propose(seen, 0, 1.0)
    started = {name for name in sizes(out) if name.startswith("w")}
    queue = [Request(f"w{i}", size, time_s) for i, (size, time_s) in enumerate(waiting)]
    assert started == easy(nodes, ends, queue)
