"""Whole runs with preempting queues and windows, over messages that may get lost."""

from __future__ import annotations

import random
from functools import partial

import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulation.cluster import Cluster, Faults, node_spec
from unit.core.stage import CHECKED, counted_as

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy

S, W = 1_000_000_000, 1_000_000
BUDGET_UW = 200 * W
QUEUES = (
    Queue(name="low"),
    Queue(name="other"),
    Queue(name="high", priority=4.0, preempts=("low",)),
)
JOBS = 12
PREEMPTED_BY = {"low": {"high"}}
POLICIES = [FifoEasy(), FifoEasy(backfill=False), EasyUniform()]


def random_spec(rng: random.Random) -> JobSpec:
    queue = rng.choice(["low", "low", "other", "high"])
    size = rng.randint(1, 3)
    seconds = rng.randint(2, 20)
    kinds = [JobKind.RIGID, JobKind.MALLEABLE]
    counts = {"unit": rng.choice([SizeUnit.CORES, SizeUnit.NODES]), "kind": rng.choice(kinds)}
    if rng.random() < 0.2:
        counts = counted_as(rng, kinds, cores=1)
    return JobSpec(
        name="s",
        app="s",
        argv=("run", str(seconds * size)),
        **counts,
        size_min=size,
        size_max=size,
        time_ns=rng.choice([seconds, seconds, 40]) * S,
        queue=queue,
        priority=4.0 if queue == "high" else 1.0,
        preemptable=rng.random() < 0.7,
    )


def run_of(policy: Policy, seed: int, window: bool) -> Cluster:
    """Run three nodes under a budget that does not feed them all, with twelve jobs, to the end."""
    rng = random.Random(seed)
    nodes = [node_spec(f"n{i}", cores=rng.choice([3, 4])) for i in range(3)]
    faults = Faults(lose=0.05, late=0.05, double=0.05, delay_ns=200_000_000)
    cluster = Cluster(nodes, policy, BUDGET_UW, seed, faults)
    cluster.post(ev.QueuesConfigured(queues=QUEUES))
    if window:
        kept = Reservation(
            name="k",
            nodes=(NodeId("n0"), NodeId("n1")),
            start_ns=rng.randint(1, 20) * S,
            end_ns=rng.randint(30, 60) * S,
            maintenance=rng.random() < 0.5,
            queue="other",
        )
        cluster.clock.later(S // 2, partial(cluster.post, ev.ReservationMade(reservation=kept)))
    for index in range(JOBS):
        spec = random_spec(rng)
        cluster.clock.later(rng.randint(0, 30) * S, partial(cluster.go, str(index), spec))

    def done() -> bool:
        jobs = cluster.core.state.jobs.values()
        return len(jobs) == JOBS and all(job.final for job in jobs)

    cluster.run(2000 * S, done)
    return cluster


class Looking:
    """A replay that checks every accepted plan and every start."""

    def __init__(self) -> None:
        self.core = CoordinatorCore(BUDGET_UW, CHECKED)
        self.preempted: list[tuple[JobId, JobId]] = []
        self.wrong: list[str] = []

    def see(self, event: ev.Event, now_ns: int) -> None:
        if isinstance(event, ev.PlanProposed) and self.core.state.solving:
            self._taken(self.core.judged(event, now_ns), now_ns)
        self.core.handle(event, now_ns)

    def _taken(self, accepted: ev.PlanAccepted, now_ns: int) -> None:
        jobs = self.core.state.jobs
        for one in accepted.preemptions:
            victim, waits = jobs[one.job_id], jobs[one.for_job]
            self.preempted.append((one.job_id, one.for_job))
            if not victim.spec.preemptable:
                self.wrong.append(f"{one.job_id} was not submitted for it")
            if waits.spec.queue not in PREEMPTED_BY.get(victim.spec.queue, ()):
                self.wrong.append(f"{waits.spec.queue} does not pre-empt {victim.spec.queue}")
            if waits.state is not JobState.PENDING:
                self.wrong.append(f"{one.for_job} is {waits.state}")
        for start in accepted.starts:
            job = jobs[start.job_id]
            made_way_for = [waits for victim, waits in self.preempted if victim == job.job_id]
            if made_way_for and jobs[made_way_for[-1]].state is JobState.PENDING:
                self.wrong.append(f"{job.job_id} starts before {made_way_for[-1]}")
            ends_ns = now_ns + round(start.expected_total_s * S)
            for one in self.core.state.reservations.values():
                right = job.spec.queue == one.queue and not one.maintenance
                there = any(share.node_id in one.nodes for share in start.shares)
                if there and not right and now_ns < one.end_ns and one.start_ns < ends_ns:
                    self.wrong.append(f"{job.job_id} is on a node of {one.name}")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(max_examples=examples(12))
@given(seed=st.integers(0, 10**6), window=st.booleans())
# The order to end a job on a node overtook its launch order.
@example(seed=359, window=False)
def test_runs_with_pre_emption(policy: Policy, seed: int, window: bool) -> None:
    """Only eligible jobs are preempted, no two jobs alternate, and all end.

    The run checks power.
    """
    cluster = run_of(policy, seed, window)
    looking = Looking()
    for event, now_ns in cluster.journal:
        looking.see(event, now_ns)
    assert looking.wrong == []
    jobs = cluster.core.state.jobs
    assert {job.state for job in jobs.values()} == {JobState.COMPLETED}
    assert len(jobs) == JOBS
    high = sum(job.spec.queue == "high" for job in jobs.values())
    for job in jobs.values():
        if not job.spec.preemptable or job.spec.queue != "low":
            assert job.attempt == 1
        assert job.attempt <= 1 + high
    assert len(set(looking.preempted)) == len(looking.preempted), "once for each that waited"


def test_such_runs_pre_empt() -> None:
    """Guards against an empty test above."""
    found = [run_of(FifoEasy(), seed, window=False) for seed in range(20)]
    attempts = [job.attempt for one in found for job in one.core.state.jobs.values()]
    assert sum(attempt > 1 for attempt in attempts) >= 5
