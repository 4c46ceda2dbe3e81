"""Jobs with a processor map over several nodes, on a cluster: nodes change hands under faults."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
from effort import examples
from simulation.cluster import Cluster, Faults, S, W, node_spec

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.equipartition.policy import Equipartition
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.simulator.messages.agent import Agent

CORES = 4


def spec(seconds: int, high: int = 3, low: int = 1) -> JobSpec:
    """A Charm++ job with this run time on one node."""
    return JobSpec(
        name="sim",
        app="sim",
        argv=("run", str(seconds * CORES)),
        kind=JobKind.MALLEABLE,
        mode=ResizeMode.MAP,
        unit=SizeUnit.NODES,
        own_launcher=True,
        size_min=low,
        size_max=high,
        time_ns=seconds * S,
    )


class Watched(Cluster):
    """Checks at every change whether objects are on cores that their job does not hold."""

    def _changed(self, agent: Agent) -> None:
        super()._changed(agent)
        for one in agent.running:
            if not one.spans:
                continue
            reach = self.core.state.jobs[one.job_id].reach
            first = self.agents[reach[0]].processes.get(one.job_id) if reach else None
            if first is None or not first.running or one.attempt != first.attempt:
                continue
            at = reach.index(agent.node_id) * CORES
            enabled = sum(first.processor_map[at : at + CORES])
            assert not (one.resident and enabled), f"objects of {one.job_id} on {agent.node_id}"


def cluster(policy: object, nodes: int = 3, budget_w: int = 300, **fields: object) -> Watched:
    specs = [
        replace(node_spec(f"n{index}", cores=CORES), steps_address="unix:s")
        for index in range(nodes)
    ]
    return Watched(specs, policy, budget_w * W, **fields)  # type: ignore[arg-type]


def nodes_of(one: Cluster, job_id: str) -> tuple[list[str], list[str]]:
    """Nodes that the job holds, and nodes where it is resident, from the state of the agents."""
    found = {
        node_id: agent.processes[JobId(job_id)]
        for node_id, agent in one.agents.items()
        if JobId(job_id) in agent.processes and agent.processes[JobId(job_id)].running
    }
    held = [str(node_id) for node_id, process in found.items() if process.cpus]
    return held, [str(node_id) for node_id, process in found.items() if process.resident]


def test_a_job_gives_nodes_back_by_order_and_takes_them_again() -> None:
    one = cluster(FifoEasy())
    seen = []
    one.clock.later(S, partial(one.go, "a", spec(180)))
    one.clock.later(21 * S, lambda: one.resize(JobId("a"), 1))
    rigid = replace(spec(10, high=2, low=2), kind=JobKind.RIGID, mode=ResizeMode.FIXED)
    one.clock.later(25 * S, partial(one.go, "b", rigid))
    for at_s in (20, 24, 28):
        one.clock.later(at_s * S, lambda: seen.append(nodes_of(one, "a")))
    one.clock.later(30 * S, lambda: one.resize(JobId("a"), 3))
    one.run(4000 * S, lambda: one.submitted == 2 and not one.core.state.open_jobs)
    assert seen == [
        (["n0", "n1", "n2"], []),
        (["n0"], ["n1", "n2"]),
        (["n0"], ["n1", "n2"]),
    ]
    jobs = one.core.state.jobs
    assert {job.state for job in jobs.values()} == {JobState.COMPLETED}
    other = one.truth.runs[JobId("b")].totals
    assert other.start_ns < 26 * S
    assert one.truth.runs[JobId("a")].totals.start_ns < other.start_ns
    # 60 s on three nodes, of which 20 s were done there; some 10 s on one; the rest on three.
    assert one.truth.runs[JobId("a")].totals.end_ns / S == pytest.approx(68, abs=3)
    assert jobs[JobId("a")].attempts == ()
    assert not one.clashes


@pytest.mark.parametrize(
    "policy",
    [
        Parm(ParmSettings(solver="greedy", resize_interval_s=5)),
        Parm(ParmSettings(solver="lagrangian", resize_interval_s=5)),
        Equipartition(),
    ],
    ids=["parm-greedy", "parm", "equipartition"],
)
def test_a_policy_takes_nodes_for_a_newcomer_and_gives_them_back(policy: object) -> None:
    one = cluster(policy, nodes=4)
    worth = replace(spec(100, high=2), priority=20.0)
    sizes = []
    one.clock.later(S, partial(one.go, "a", spec(1200, high=4)))
    one.clock.later(40 * S, partial(one.go, "b", worth))
    for at_s in (39, 60):
        one.clock.later(at_s * S, lambda: sizes.append(len(nodes_of(one, "a")[0])))
    one.run(9000 * S, lambda: one.submitted == 2 and not one.core.state.open_jobs)
    assert {job.state for job in one.core.state.jobs.values()} == {JobState.COMPLETED}
    assert sizes[0] == 4
    assert sizes[1] < 4
    first = one.truth.runs[JobId("a")].totals
    assert first.resizes >= 2, "less, and more again"
    assert first.last_size == 4 * CORES
    assert one.truth.runs[JobId("b")].totals.start_ns < 60 * S
    assert not one.clashes


@pytest.mark.parametrize("seed", range(examples(15)))
def test_orders_losses_and_faults_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    faults = Faults(lose=0.05, late=0.05, double=0.05, refuse=0.02, delay_ns=200_000_000)
    policy = (
        FifoEasy(),
        Parm(ParmSettings(solver="greedy", resize_interval_s=3)),
        Equipartition(),
    )[seed % 3]
    one = cluster(policy, nodes=4, seed=seed, faults=faults)
    for index in range(5):
        job = spec(rng.randint(20, 90), rng.randint(2, 4))
        if rng.random() < 0.3:
            job = replace(job, mode=ResizeMode.MASK, unit=SizeUnit.CORES, own_launcher=False)
        one.clock.later(rng.randint(1, 9) * S, partial(one.go, str(index), job))
    for _ in range(25):
        at_ns = rng.randint(5 * S, 120 * S)
        job_id, size = JobId(str(rng.randrange(5))), rng.randint(0, 4)
        one.clock.later(at_ns, partial(one.resize, job_id, size))
    for happen in (one.cut, one.kill_agent, one.stop_agent):
        node = NodeId(f"n{rng.randrange(4)}")
        one.clock.later(rng.randint(10, 60) * S, partial(happen, node, rng.randint(1, 8) * S))
    one.clock.later(rng.randint(15, 60) * S, lambda: one.kill_coordinator(3 * S))
    one.clock.later(125 * S, lambda: [one.resize(JobId(str(job)), 0) for job in range(5)])
    one.run(9000 * S, lambda: one.submitted >= 4 and not one.core.state.open_jobs)
    assert not one.core.state.open_jobs
    assert not one.clashes
    for job in one.core.state.jobs.values():
        assert job.state is JobState.COMPLETED, job
        assert one.truth.runs[job.job_id].done >= 0.999
    assert any(job.resizes and len(job.reach) > 1 for job in one.core.state.jobs.values())
    again = CoordinatorCore(300 * W, CoreSettings(check_every=1))
    for event, now_ns in one.journal:
        again.handle(event, now_ns)
    assert again.state == one.core.state
