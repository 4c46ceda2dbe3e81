"""Nodes that stop, restart, leave, lose power and are removed: the true limits of all agents.

The driver compares the possible power of every node with the budget at each instant, including
nodes outside the ledger. It omits nodes that an operator has declared unpowered or outside the
budget.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from effort import examples
from simulation.cluster import PACKAGE, Cluster, Faults, S, W, node_spec

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.node import Duty
from wattfold.coordinator.core.rules.power.unaccounted_power import unaccounted_power
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings

POLICY = Parm(ParmSettings(solver="greedy", resize_interval_s=2))
N0, N1, N2, N3 = (NodeId(f"n{index}") for index in range(4))
FLOOR_W, MAX_W, BASE_W = 9, 45, 10


def job(seconds: int, kind: JobKind = JobKind.MALLEABLE, least: int = 1) -> JobSpec:
    return JobSpec(
        name="sim",
        app="sim",
        argv=("run", str(seconds)),
        kind=kind,
        size_min=least,
        size_max=4,
        time_ns=seconds * S,
    )


def busy(nodes: int, budget_w: int, seconds: int = 1000, seed: int = 0) -> Cluster:
    """Every node has one job, and the jobs use all of the budget."""
    cluster = Cluster([node_spec(f"n{i}") for i in range(nodes)], POLICY, budget_w * W, seed)
    for index in range(nodes):
        cluster.go(str(index), job(seconds, least=4))
    cluster.run(10 * S)
    return cluster


def cap_w(cluster: Cluster, node_id: NodeId) -> float:
    return cluster.agents[node_id].zones[PACKAGE].cap_uw / W


def duty(cluster: Cluster, node_id: NodeId) -> Duty:
    return cluster.core.state.nodes[node_id].duty


def jobs_on(cluster: Cluster, node_id: NodeId) -> list[str]:
    """Jobs that really have a process on a node."""
    return [process.job_id for process in cluster.agents[node_id].running]


def test_stop() -> None:
    """A stopped agent goes to its floors and is charged for them. Its jobs keep running."""
    cluster = busy(2, 80)
    cluster.stop_agent(N0, 60 * S)
    assert cap_w(cluster, N0) == FLOOR_W
    cluster.run(40 * S)
    assert cluster.core.state.ledger.accounts[N0].charge_uw == (BASE_W + FLOOR_W) * W
    assert len(jobs_on(cluster, N0)) == 1


def test_restart() -> None:
    """The agent returns before its lease ends: its caps rise again, and no job is lost."""
    cluster = busy(2, 80)
    cluster.stop_agent(N0, 1 * S)
    cluster.run(30 * S)
    assert cap_w(cluster, N0) > FLOOR_W
    assert {j.state for j in cluster.core.state.jobs.values()} == {JobState.RUNNING}


def test_leave() -> None:
    """It waits for its jobs, then for power, and its limits are restored only after they are
    charged.
    """
    cluster = busy(3, 110, seconds=100)
    cluster.order(N0, NodeOrder.LEAVE)
    cluster.run(12 * S)
    assert duty(cluster, N0) is Duty.LEAVING
    assert cap_w(cluster, N0) < MAX_W, "a job is still there"
    cluster.run(400 * S, lambda: duty(cluster, N0) is Duty.LEFT)
    assert cap_w(cluster, N0) == MAX_W
    assert cluster.core.state.ledger.accounts[N0].charge_uw == (BASE_W + MAX_W) * W
    cluster.run(cluster.now_ns + 60 * S)
    assert cap_w(cluster, N0) == MAX_W, "no lease and no cap takes it in again"
    cluster.order(N0, NodeOrder.RESUME)
    cluster.run(cluster.now_ns + 10 * S)
    assert duty(cluster, N0) is Duty.SERVING
    assert not cluster.agents[N0].left
    assert cap_w(cluster, N0) < MAX_W


def test_leave_that_can_never_fit_takes_nothing_from_the_others() -> None:
    cluster = busy(3, 90)
    for job_id in jobs_on(cluster, N0):
        cluster.post(ev.JobCancelRequested(job_id=JobId(job_id)))
    cluster.order(N0, NodeOrder.LEAVE)
    cluster.run(60 * S)
    assert duty(cluster, N0) is Duty.LEAVING, "55 W and two floors of 19 W do not fit into 90 W"
    assert cap_w(cluster, N0) == FLOOR_W
    assert cap_w(cluster, N1) + cap_w(cluster, N2) > 2 * FLOOR_W + 1
    cluster.set_budget(100 * W, 5 * S)
    cluster.run(100 * S, lambda: duty(cluster, N0) is Duty.LEFT)
    assert duty(cluster, N0) is Duty.LEFT


def test_forget() -> None:
    """The operator reports the node as unpowered: its power is free immediately and its job is
    lost.
    """
    cluster = busy(2, 60)
    lost = jobs_on(cluster, N0)
    cluster.cut_power(N0, 200 * S)
    cluster.run(11 * S)
    cluster.order(N0, NodeOrder.FORGET_UNPOWERED)
    assert N0 not in cluster.core.state.ledger.accounts
    assert [cluster.core.state.jobs[JobId(j)].state for j in lost] == [JobState.LOST]
    cluster.run(20 * S)
    assert cap_w(cluster, N1) > 40 - BASE_W, "what it was charged with is used"
    # It returns without an order.
    cluster.run(230 * S)
    assert duty(cluster, N0) is Duty.RETURNED
    assert N0 not in cluster.core.state.ledger.accounts
    assert unaccounted_power(cluster.core.state).drawn_uw == (BASE_W + FLOOR_W) * W
    assert cap_w(cluster, N1) <= 60 - BASE_W - (BASE_W + FLOOR_W), (
        "room is kept for it all the same"
    )
    cluster.order(N0, NodeOrder.RESUME)
    cluster.run(240 * S)
    assert N0 in cluster.core.state.ledger.accounts


def test_a_job_of_a_forgotten_node_is_started_again() -> None:
    """It runs once on another node, from its beginning; the returned process is not part of it."""
    cluster = Cluster([node_spec(f"n{i}") for i in range(2)], POLICY, 80 * W)
    cluster.go("0", replace(job(100, JobKind.RIGID, least=4), requeue_max=1))
    cluster.run(10 * S)
    (where,) = [n for n in (N0, N1) if jobs_on(cluster, n)]
    cluster.cut_power(where, 60 * S)
    cluster.run(25 * S)
    cluster.order(where, NodeOrder.FORGET_UNPOWERED)
    cluster.run(35 * S)
    known = cluster.core.state.jobs[JobId("0")]
    assert (known.state, known.attempt) == (JobState.RUNNING, 2)
    assert where not in known.ranks
    cluster.run(400 * S, lambda: known.final)
    assert known.state is JobState.COMPLETED
    (first,) = known.attempts
    assert known.ended_ns - known.started_ns > 2 * (first.ended_ns - first.started_ns) / 3


@pytest.mark.parametrize("seed", range(4))
def test_requeues_suspensions_and_faults_leave_nothing_twice(seed: int) -> None:
    """Every job runs to its end in one attempt, even if messages are lost."""
    rng = random.Random(seed)
    faults = Faults(lose=0.05, late=0.05, double=0.05, delay_ns=200_000_000)
    nodes = [node_spec(f"n{i}") for i in range(3)]
    cluster = Cluster(nodes, POLICY, 130 * W, seed, faults)
    names = [JobId(str(index)) for index in range(6)]
    for name in names:
        cluster.go(name, replace(job(rng.randint(20, 60), least=2), requeue_max=3))
    kinds = (ev.JobRequeueRequested, ev.JobSuspendRequested, ev.JobResumeRequested)
    for _ in range(40):
        request = rng.choice(kinds)(job_id=rng.choice(names))
        cluster.clock.later(rng.randint(2, 80) * S, partial(cluster.post, request))
    cluster.clock.later(20 * S, partial(cluster.cut_power, N0, 20 * S))
    # A lost command to end a job is repeated at the next contact.
    for at_s in (50, 130, 200, 270):
        cluster.clock.later(at_s * S, partial(cluster.kill_coordinator, 3 * S))
    for name in names:
        cluster.clock.later(120 * S, partial(cluster.post, ev.JobResumeRequested(job_id=name)))
    cluster.run(900 * S, lambda: all(j.final for j in cluster.core.state.jobs.values()))
    jobs = cluster.core.state.jobs
    assert {job.state for job in jobs.values()} == {JobState.COMPLETED}
    assert any(job.attempt > 1 for job in jobs.values())
    assert all(agent.clashes == 0 for agent in cluster.agents.values())


def test_a_forgotten_node_that_never_lost_its_power_keeps_its_processes() -> None:
    cluster = busy(2, 100)
    kept = jobs_on(cluster, N0)
    cluster.cut(N0, 30 * S)
    cluster.order(N0, NodeOrder.FORGET_UNPOWERED)
    cluster.run(60 * S)
    assert duty(cluster, N0) is Duty.RETURNED
    assert jobs_on(cluster, N0) == kept, "nobody ends them until the node is resumed"
    cluster.order(N0, NodeOrder.RESUME)
    cluster.run(70 * S)
    assert kept[0] not in jobs_on(cluster, N0), "its job was lost: its process is ended"


@pytest.mark.parametrize("seed", range(examples(24)))
def test_any_order_of_stop_restart_leave_forget_and_crash(seed: int) -> None:
    """Includes lost, late and duplicate messages and a killed coordinator."""
    rng = random.Random(seed)
    budget_w = rng.randint(130, 220)
    cluster = Cluster(
        [node_spec(f"n{i}", cores=rng.choice([2, 4, 8])) for i in range(4)],
        POLICY,
        budget_w * W,
        seed,
        Faults(lose=0.06, late=0.04, double=0.04, delay_ns=200_000_000),
    )
    for index in range(20):
        at_ns, spec = rng.randint(0, 80) * S, job(rng.randint(2, 30), rng.choice(list(JobKind)[1:]))
        cluster.clock.later(at_ns, partial(cluster.go, str(index), spec))
    for _ in range(10):
        at_ns = rng.randint(5, 100) * S
        cluster.clock.later(at_ns, _incident(cluster, rng))
    cluster.clock.later(rng.randint(20, 60) * S, partial(cluster.kill_coordinator, 3 * S))
    cluster.run(120 * S)
    for node_id in cluster.agents:
        cluster.order(node_id, NodeOrder.RESUME)
    cluster.run(2000 * S, lambda: all(j.final for j in cluster.core.state.jobs.values()))
    assert all(j.final for j in cluster.core.state.jobs.values())
    assert {node.duty for node in cluster.core.state.nodes.values()} == {Duty.SERVING}
    assert cluster.core.state.ledger.accounts.keys() == cluster.agents.keys()


def _incident(cluster: Cluster, rng: random.Random) -> Callable[[], None]:
    node_id = NodeId(f"n{rng.randint(0, 3)}")
    for_ns = rng.randint(1, 15) * S

    def forget() -> None:
        if not cluster.down:
            cluster.cut_power(node_id, for_ns)
            cluster.order(node_id, NodeOrder.FORGET_UNPOWERED)

    return rng.choice(
        [
            partial(cluster.stop_agent, node_id, for_ns),
            partial(cluster.cut, node_id, for_ns),
            partial(cluster.order, node_id, NodeOrder.LEAVE),
            partial(cluster.order, node_id, NodeOrder.DRAIN),
            partial(cluster.order, node_id, NodeOrder.RESUME),
            forget,
        ]
    )
