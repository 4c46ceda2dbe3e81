"""Whole runs under a ramp limit, over messages that get lost: the limit holds at every raise."""

from __future__ import annotations

import random
from functools import partial

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.core.ramp_oracle import Oracle
from simulation.cluster import Cluster, Faults, node_spec
from unit.core.stage import CHECKED

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.configuration import RampConfigured
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy

S, W = 1_000_000_000, 1_000_000
BUDGET_UW = 200 * W
JOBS = 8


def run_of(seed: int, limits: RampLimits) -> Cluster:
    """Run three nodes with jobs, changes of the budget, lost nodes and a killed coordinator."""
    rng = random.Random(seed)
    nodes = [node_spec(f"n{i}") for i in range(3)]
    faults = Faults(lose=0.05, late=0.05, double=0.05, delay_ns=200_000_000)
    cluster = Cluster(nodes, FifoEasy(), BUDGET_UW, seed, faults)
    cluster.clock.later(2 * S, partial(cluster.post, RampConfigured(limits=limits)))
    for index in range(JOBS):
        size = rng.randint(1, 3)
        spec = JobSpec(
            name="s",
            app="s",
            argv=("run", str(rng.randint(2, 20) * size)),
            kind=JobKind.RIGID,
            unit=rng.choice([SizeUnit.CORES, SizeUnit.NODES]),
            size_min=size,
            size_max=size,
            time_ns=60 * S,
        )
        cluster.clock.later(rng.randint(0, 40) * S, partial(cluster.go, str(index), spec))
    for _ in range(3):
        at_ns, budget_w = rng.randint(5, 50) * S, rng.randint(90, 200)
        cluster.clock.later(at_ns, partial(cluster.set_budget, budget_w * W, 20 * S))
    cluster.clock.later(55 * S, partial(cluster.set_budget, BUDGET_UW, S))
    node = NodeId(f"n{rng.randint(0, 2)}")
    cluster.clock.later(rng.randint(5, 50) * S, partial(cluster.cut, node, rng.randint(1, 15) * S))
    if rng.random() < 0.5:
        cluster.clock.later(rng.randint(5, 50) * S, partial(cluster.kill_coordinator, 3 * S))

    def done() -> bool:
        jobs = cluster.core.state.jobs.values()
        return len(jobs) == JOBS and all(job.final for job in jobs)

    cluster.run(1000 * S, done)
    return cluster


@settings(max_examples=examples(30), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rise_w=st.integers(1, 20),
    fall_w=st.integers(0, 20),
    step_w=st.integers(1, 40),
)
def test_the_limit_holds_at_every_raise(seed: int, rise_w: int, fall_w: int, step_w: int) -> None:
    """The limit holds over every pair of times, and all jobs get on."""
    limits = RampLimits(rise_uw_per_s=rise_w * W, fall_uw_per_s=fall_w * W, step_uw=step_w * W)
    cluster = run_of(seed, limits)
    oracle = Oracle(limits, BUDGET_UW)
    for event, now_ns in cluster.journal:
        oracle.see(event, now_ns)
    assert oracle.wrong == []
    assert {job.state for job in cluster.core.state.jobs.values()} == {JobState.COMPLETED}


def test_such_runs_raise_caps() -> None:
    """Guards against an empty test above."""
    limits = RampLimits(rise_uw_per_s=W, step_uw=W)
    oracle = Oracle(limits, BUDGET_UW)
    for event, now_ns in run_of(0, limits).journal:
        oracle.see(event, now_ns)
    assert oracle.raises > 20


@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 10**6), rate_w=st.integers(1, 20), step_w=st.integers(1, 40))
def test_looking_at_everything_gives_the_same_actions(seed: int, rate_w: int, step_w: int) -> None:
    limits = RampLimits(rise_uw_per_s=rate_w * W, fall_uw_per_s=rate_w * W, step_uw=step_w * W)
    fast, slow = CoordinatorCore(BUDGET_UW, CHECKED), CoordinatorCore(BUDGET_UW, CHECKED)
    for event, now_ns in run_of(seed, limits).journal:
        slow.look_at_everything()
        actions = [one for one in slow.handle(event, now_ns) if not isinstance(one, act.WakeAt)]
        seen = [one for one in fast.handle(event, now_ns) if not isinstance(one, act.WakeAt)]
        assert sorted(map(repr, actions)) == sorted(map(repr, seen))
