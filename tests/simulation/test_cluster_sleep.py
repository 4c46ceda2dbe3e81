"""Sleep that plans decide, with nodes whose boots fail or are late and a coordinator that dies.

The driver compares the power that all nodes may really draw with the budget at each instant. Nodes
that sleep or boot draw what the site states for them.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from effort import examples
from simulation.cluster import Cluster, Faults, S, W, node_spec

from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.node_power import PowerState, SleepSettings
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry

ASLEEP_W, BOOT_W, NODES = 3, 40, 4
SLEEP = SleepSettings(
    asleep_uw=ASLEEP_W * W,
    boot_uw=BOOT_W * W,
    boot_ns=40 * S,
    suspend_ns=20 * S,
    boots_max=2,
    decides=True,
    awake_min_ns=20 * S,
)


def cluster_of(policy: str, budget_w: int, seed: int = 0, **faults: Any) -> Cluster:
    found = registry.find(policy)
    assert found is not None
    specs = [node_spec(f"n{index}") for index in range(NODES)]
    return Cluster(
        specs, found.service({}), budget_w * W, seed, faults=Faults(**faults), sleep=SLEEP
    )


def whole(nodes: int, seconds: int) -> JobSpec:
    return JobSpec(
        name="sim",
        app="sim",
        argv=("run", str(seconds)),
        kind=JobKind.RIGID,
        unit=SizeUnit.NODES,
        size_min=nodes,
        size_max=nodes,
        time_ns=seconds * S,
        exclusive=True,
    )


def asleep(cluster: Cluster) -> int:
    return sum(node.power is PowerState.ASLEEP for node in cluster.core.state.nodes.values())


def test_nodes_sleep_in_truth_and_a_job_runs_after_its_boot() -> None:
    cluster = cluster_of("fifo-easy", 400)
    cluster.run(60 * S)
    assert asleep(cluster) == NODES
    assert cluster.truth.sums.bound_uw == NODES * ASLEEP_W * W
    cluster.go("a", whole(2, 30))
    cluster.run(70 * S)
    assert cluster.core.state.jobs["a"].state is JobState.STARTING  # type: ignore[index]
    cluster.run(400 * S)
    job = cluster.core.state.jobs["a"]  # type: ignore[index]
    assert job.state is JobState.COMPLETED


def set_budget(cluster: Cluster, watts: int) -> None:
    if not cluster.down:
        cluster.set_budget(watts * W, 10 * S)


def random_orders(cluster: Cluster, rng: random.Random, until_s: int) -> None:
    """Submit jobs, give orders, change the budget, and kill the coordinator at random times."""
    at = cluster.clock.at
    for number in range(8):
        spec = whole(rng.randint(1, NODES), rng.randint(5, 80))
        at(rng.randrange(until_s) * S, partial(cluster.go, f"j{number}", spec))
    for _ in range(3):
        order = rng.choice([NodeOrder.SLEEP, NodeOrder.WAKE, NodeOrder.DECIDE])
        node = rng.choice(list(cluster.agents))
        at(rng.randrange(until_s) * S, partial(cluster.order, node, order))
    for _ in range(2):
        kept = ev.SpareNodesKept(nodes=rng.randint(0, 2))
        at(rng.randrange(until_s) * S, partial(cluster.post, kept))
        at(rng.randrange(until_s) * S, partial(cluster.kill_coordinator, rng.randint(1, 20) * S))
    for _ in range(2):
        watts = rng.choice([90, 120, 160])
        at(rng.randrange(until_s) * S, partial(set_budget, cluster, watts))
    for node in cluster.agents:
        last = partial(cluster.order, node, NodeOrder.DECIDE)
        at((until_s + 30) * S, last)
    at((until_s + 31) * S, partial(set_budget, cluster, 250))


@pytest.mark.parametrize("seed", range(examples(12)))
def test_the_budget_is_kept_and_every_job_ends_while_boots_fail(seed: int) -> None:
    rng = random.Random(seed)
    policies = ["fifo-easy", "parm-wse", "conservative", "equipartition"]
    cluster = cluster_of(
        rng.choice(policies),
        200,
        seed,
        switch_fails=0.2,
        boot_late=0.2,
        boot_fails=0.1,
        lose=0.02,
    )
    random_orders(cluster, rng, 400)
    cluster.run(440 * S)
    # Nodes whose boots failed are used again only after an order.
    for round_s in range(500, 4000, 100):
        cluster.run(round_s * S)
        for node in cluster.core.state.nodes.values():
            if node.boot_failed and node.power is PowerState.ASLEEP and not cluster.down:
                cluster.order(node.node_id, NodeOrder.WAKE)
                cluster.order(node.node_id, NodeOrder.DECIDE)
    jobs = cluster.core.state.jobs.values()
    nodes = cluster.core.state.nodes.values()
    assert sum(node.boots for node in nodes) > 0
    assert {job.state for job in jobs} <= {JobState.COMPLETED}, [
        (job.job_id, job.state.value, job.reason) for job in jobs
    ]
