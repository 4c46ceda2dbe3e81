"""Runs of a simulated cluster with faults: cut anywhere, examined in part, and derived again."""

from __future__ import annotations

import random
from functools import partial

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.core.derived import compare
from simulation.cluster import Cluster, Faults, node_spec
from unit.core.stage import counted_as

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings

S, W = 1_000_000_000, 1_000_000
BUDGET_UW = 140 * W


def troubled(seed: int) -> Cluster:
    """Run jobs on cores and on nodes with faults, orders and a changing budget, to the end."""
    rng = random.Random(seed)
    nodes = [node_spec(f"n{i}", cores=rng.choice([2, 4, 8])) for i in range(4)]
    faults = Faults(lose=0.05, late=0.05, double=0.05, refuse=0.03, delay_ns=200_000_000)
    policy = Parm(ParmSettings(solver="greedy", resize_interval_s=1)) if seed % 2 else FifoEasy()
    cluster = Cluster(nodes, policy, BUDGET_UW, seed, faults)
    for index in range(10):
        spec = JobSpec(
            name="s",
            app="s",
            argv=("run", str(rng.randint(2, 30))),
            **counted_as(rng, list(JobKind)),
            size_max=2,
            time_ns=20 * S,
        )
        cluster.clock.later(rng.randint(0, 9) * S, partial(cluster.go, str(index), spec))

    def change(budget_uw: int) -> None:
        # As operators must: a node that has left is charged with its original limits.
        cluster.set_budget(max(budget_uw, cluster.core.state.floor_uw()), 10 * S)

    for at_s in (8, 15):
        cluster.clock.later(at_s * S, partial(change, rng.randint(90, 160) * W))
    cluster.clock.later(6 * S, partial(cluster.cut, NodeId("n0"), 9 * S))
    cluster.clock.later(12 * S, partial(cluster.kill_coordinator, 2 * S))
    for order in ev.NodeOrder:
        node = NodeId(f"n{rng.randint(0, 3)}")
        cluster.clock.later(rng.randint(2, 24) * S, partial(cluster.order, node, order))
    cluster.run(25 * S)
    return cluster


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 10**6), cut=st.floats(0, 1))
def test_a_run_can_be_cut_anywhere(seed: int, cut: float) -> None:
    cluster = Cluster(
        [node_spec("n0"), node_spec("n1", cores=8)],
        Parm(ParmSettings(solver="greedy", resize_interval_s=1)),
        110 * W,
        seed,
        Faults(lose=0.1, late=0.05, refuse=0.03, delay_ns=100_000_000),
    )
    rng = random.Random(seed)
    for index in range(8):
        spec = JobSpec(
            name="s",
            app="s",
            argv=("run", str(rng.randint(2, 9))),
            kind=JobKind.MALLEABLE,
            size_max=4,
        )
        cluster.clock.later(rng.randint(0, 9) * S, lambda i=index, s=spec: cluster.go(str(i), s))
    cluster.clock.later(6 * S, lambda: cluster.cut(NodeId("n0"), 9 * S))
    cluster.run(15 * S)
    core = CoordinatorCore(110 * W, cluster.core.state.settings)
    at = round(cut * len(cluster.journal))
    for event, now_ns in cluster.journal[:at]:
        core.handle(event, now_ns)
    core.state = codec.load_state(codec.dump_state(core.state))
    for event, now_ns in cluster.journal[at:]:
        core.handle(event, now_ns)
    assert core.state == cluster.core.state


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 10**6))
def test_looking_at_what_was_touched_is_enough(seed: int) -> None:
    cluster = troubled(seed)
    whole = CoordinatorCore(BUDGET_UW, cluster.core.state.settings)
    actions: list[act.Action] = []
    for event, now_ns in cluster.journal:
        whole.look_at_everything()
        actions += whole.handle(event, now_ns)
    assert actions == cluster.actions
    assert whole.state == cluster.core.state


@pytest.mark.parametrize("seed", range(12))
def test_what_is_derived_is_what_a_loaded_state_works_out(seed: int) -> None:
    cluster = troubled(seed)
    core = CoordinatorCore(BUDGET_UW, cluster.core.state.settings)
    for number, (event, now_ns) in enumerate(cluster.journal):
        core.handle(event, now_ns)
        if number % 13 == 0:
            compare(core, now_ns)
