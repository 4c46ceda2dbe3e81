"""PARM on random pools: it keeps limits, decides as the service does, and survives restarts."""

from __future__ import annotations

import pickle
import random

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import job, node, snapshot
from unit.simulation.parm_pools import Pool, Request, S, W, pool, random_requests

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Plan
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings

NODES = 6
VARIANTS = st.sampled_from(ParmVersion)


def random_event(rng: random.Random, one: Pool, waiting: list[int], now_s: float) -> None:
    kind = rng.random()
    if waiting and kind < 0.5:
        one.submit(waiting.pop(), now_s=now_s)
    elif one.runs and kind < 0.75:
        one.end(rng.choice(sorted(one.runs)), now_s=now_s)
    elif kind < 0.9:
        one.give(one.nodes, rng.randint(0, 40 * NODES) * W)
    for running in one.runs:
        grown = one.shares.of.get(running, 0.0) + rng.uniform(0, 0.3)
        one.shares.of[running] = min(grown, 0.99)


@settings(max_examples=examples(120))
@given(
    seed=st.integers(0, 10**6),
    variant=VARIANTS,
    price=st.booleans(),
    drams_w=st.sampled_from([(), (10, 14, 18)]),
    solver=st.sampled_from(["lagrangian", "greedy"]),
)
def test_what_runs_stays_within_nodes_power_and_rules(
    seed: int, variant: ParmVersion, price: bool, drams_w: tuple[int, ...], solver: str
) -> None:
    rng = random.Random(seed)
    requests = random_requests(rng, 8, NODES)
    one = pool(
        requests,
        nodes=NODES,
        power_w=150,
        version=variant,
        price_resizes=price,
        dram_levels_uw=tuple(w * W for w in drams_w),
        solver=solver,
    )
    waiting, resized_s = list(range(8)), dict.fromkeys(range(8), -1e9)
    for step in range(15):
        now_s = 100.0 + 90 * step
        random_event(rng, one, waiting, now_s)
        before = dict(one.runs)
        one.decide(now_s)
        nodes, power_uw = one.taken
        assert nodes <= one.nodes
        short = power_uw > one.spendable_uw
        if short:
            assert set(one.runs) == set(before)
        for index, (size, cap_uw) in one.runs.items():
            request = requests[index]
            assert request.low <= size <= min(request.high, NODES)
            assert one.machine.cap_uw_min <= cap_uw <= one.machine.cap_uw_max
            if index not in before:
                assert variant is not ParmVersion.NOMM or size == request.low
            elif before[index][0] != size:
                assert variant is ParmVersion.WSE
                assert request.malleable
                # A lock is lifted only if the jobs do not fit otherwise.
                assert now_s - resized_s[index] >= 500 or _tight(one, before)
                resized_s[index] = now_s


def _tight(one: Pool, before: dict[int, tuple[int, int]]) -> bool:
    """Whether the running jobs exceed the budget at their sizes and near their minimum cap."""
    # 32 W is the minimum cap offered to any application, apart from rounding and LeanMD's 30 W.
    least_uw = sum(size * one.machine.dynamic_uw(33 * W) for size, _ in before.values())
    return least_uw > one.spendable_uw


def view_of(request: Request, index: int, current: Assignment | None, done: float) -> JobView:
    return job(
        f"j{index}",
        request.low,
        request.high,
        kind=JobKind.MOLDABLE,
        unit=SizeUnit.NODES,
        profile=request.profile,
        priority=request.priority,
        submitted_s=request.submit_s,
        current=current,
        done=done,
        started_s=0 if current else -1,
    )


@settings(max_examples=examples(80))
@given(
    seed=st.integers(0, 10**6),
    variant=VARIANTS,
    cores=st.sampled_from([1, 4]),
    solver=st.sampled_from(["lagrangian", "greedy"]),
)
def test_the_service_decides_the_same(
    seed: int, variant: ParmVersion, cores: int, solver: str
) -> None:
    rng = random.Random(seed)
    requests = random_requests(rng, 6, NODES)
    requests = [Request(**{**vars(r), "malleable": False}) for r in requests]
    one = pool(requests, nodes=NODES, version=variant, solver=solver, alpha=0.9)
    policy = Parm(ParmSettings(solver=solver, alpha=0.9), version=variant)
    machine = [node(f"n{i}", cores, base_w=56, floor_w=25, max_w=60) for i in range(NODES)]
    current: dict[int, Assignment] = {}
    queued: list[int] = []
    for now_s, batch in ((100.0, (0, 1, 2)), (200.0, (3, 4)), (300.0, (5,))):
        one.submit(*batch, now_s=now_s)
        queued += batch
        spare_w = sum(a.size for a in current.values()) * 9 + rng.randint(0, 200)
        one.give(NODES, spare_w * W)
        order = [*one.runs, *queued]
        done = {index: rng.uniform(0, 0.9) for index in one.runs}
        one.shares.of = done
        views = [view_of(requests[i], i, current.get(i), done.get(i, 0.0)) for i in order]
        seen = snapshot(machine, views, budget_w=NODES * (56 + 25) + spare_w, now_s=now_s)
        plan: Plan = policy.propose(seen, seen.now_ns, 40.0)
        assert plan.outcome in ("optimal", "feasible")
        one.decide(now_s)
        current = {int(a.job_id[1:]): a for a in plan.assignments}
        assert {i: (a.size, a.cap_uw) for i, a in current.items()} == one.runs
        queued = [index for index in queued if index not in one.runs]


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 10**6), price=st.booleans())
def test_a_scheduler_restored_decides_the_same(seed: int, price: bool) -> None:
    rng = random.Random(seed)
    one = pool(random_requests(rng, 8, NODES), nodes=NODES, power_w=150, price_resizes=price)
    waiting = list(range(8))
    for step in range(6):
        random_event(rng, one, waiting, 100.0 + 90 * step)
        one.decide(100.0 + 90 * step)
    twin: Pool = pickle.loads(pickle.dumps(one))
    steps = rng.getstate()
    outcomes = []
    for each in (one, twin):
        rng.setstate(steps)
        left = list(waiting)
        for step in range(6, 12):
            random_event(rng, each, left, 100.0 + 90 * step)
            outcomes.append((each.decide(100.0 + 90 * step), each.scheduler.revisit_ns))
    assert outcomes[:6] == outcomes[6:]


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**6), now_s=st.floats(100, 1e5))
def test_the_next_look_is_when_the_first_lock_ends(seed: int, now_s: float) -> None:
    rng = random.Random(seed)
    one = pool(random_requests(rng, 8, NODES), nodes=NODES, power_w=150)
    waiting, resized_ns = list(range(8)), {}
    for step in range(8):
        at_s = now_s + 90 * step
        random_event(rng, one, waiting, at_s)
        before = one.sizes
        one.decide(at_s)
        for index, size in one.sizes.items():
            if before.get(index, size) != size:
                resized_ns[index] = round(at_s * S)
        ends = [resized_ns[i] + 500 * S for i in one.runs if i in resized_ns]
        assert one.scheduler.revisit_ns == min((t for t in ends if t > round(at_s * S)), default=0)
