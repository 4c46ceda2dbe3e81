"""Policies for training jobs on random sites: budget, GPUs, preemption rules, and courses."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import S, faults, job, snapshot
from unit.policies.training_jobs import V100, gpu_node, runs, training

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.core.power.charge import assigned_uw
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.training.policy import TrainingPolicy
from wattfold.coordinator.solvers.training.choice import compiled_loops

SETTINGS = {
    "andreas": {"passes": 100, "attempts": 2000, "gpu_levels": 3},
    "edf": {},
    "priority": {"choice": "awaited"},
}


def made(name: str) -> Policy:
    """Return the policy with the compiled loops of its search; without them its plans differ."""
    entry = registry.find(name)
    assert entry is not None
    policy = entry.service(SETTINGS[name])
    assert isinstance(policy, TrainingPolicy)
    compiled_loops()
    return policy


def drawn_job(rng: random.Random, name: str, now_s: float) -> JobView:
    alone_s, slower = rng.uniform(300, 9000), rng.uniform(1.5, 5)
    times = {("V100", g): alone_s / g**0.8 for g in (1, 2, 4)}
    times |= {("T4", g): slower * alone_s / g**0.8 for g in (1, 2)}
    for lost in rng.sample(sorted(times), rng.choice([0, 0, 2])):
        del times[lost]
    return training(
        name,
        times,
        low=rng.choice([1, 1, 2]),
        due_s=rng.choice([-1, now_s + rng.uniform(-1, 3) * alone_s]) if now_s else -1,
        curve=rng.choice([None, V100]),
        weight=rng.choice([0.5, 1.0, 3.0]),
        submitted_s=rng.uniform(0, now_s),
        among=tuple(rng.sample([NodeId("v0"), NodeId("t0")], rng.choice([0, 0, 0, 1]))),
        memory_bytes=rng.choice([0, 2]),
        exclusive=rng.random() < 0.1,
    )


def drawn_site(seed: int) -> Snapshot:
    rng = random.Random(seed)
    now_s = 10_000.0
    nodes = [gpu_node(f"v{n}", "V100", 4, memory=8) for n in range(rng.randint(1, 3))]
    nodes += [gpu_node(f"t{n}", "T4", 2, tdp_w=70, memory=8) for n in range(rng.randint(0, 2))]
    free = {view.spec.node_id: list(view.spec.gpus) for view in nodes}
    jobs = []
    for number in range(rng.randint(0, 12)):
        view = drawn_job(rng, f"j{number}", now_s)
        node = rng.choice(nodes).spec
        size = rng.randint(view.spec.min_size, 4)
        if rng.random() < 0.5 and len(free[node.node_id]) >= size and not view.spec.exclusive:
            taken = tuple(free[node.node_id].pop() for _ in range(size))
            view = runs(
                view,
                node.node_id,
                tuple(sorted(taken)),
                total_s=5000,
                started_s=rng.choice([now_s, now_s - 600]),
                preemptable=rng.random() < 0.7,
            )
            assert view.current is not None
            held = replace(view.current.shares[0], memory_bytes=size * view.spec.memory_bytes)
            current = replace(view.current, shares=(held,))
            view = replace(view, current=current, done=rng.random(), movable=rng.random() < 0.9)
        jobs.append(view)
    nodes = [replace(v, spec=replace(v.spec, memory_bytes=16)) for v in nodes]
    jobs += [job(f"c{n}", 1, 2, time_s=rng.choice([0, 100])) for n in range(rng.randint(0, 2))]
    seen = snapshot(nodes, jobs, now_s=now_s)
    running = [view.current for view in jobs if view.current]
    drawn_uw = sum(assigned_uw(one, [v.spec for v in nodes]) for one in running)
    base_uw = sum(view.fixed_uw for view in nodes)
    spare_uw = rng.choice([0, 10, 60, 10_000]) * 1_000_000
    windows: tuple[Reservation, ...] = ()
    if rng.random() < 0.3:
        start_ns = seen.now_ns + rng.choice([-100, 600]) * S
        windows = (
            Reservation(
                name="r",
                nodes=(NodeId("v0"),),
                start_ns=start_ns,
                end_ns=start_ns + 4000 * S,
                maintenance=True,
            ),
        )
    return replace(seen, budget_uw=base_uw + drawn_uw + spare_uw, reservations=windows)


@pytest.mark.parametrize("name", ["andreas", "edf"])
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9))
def test_plans_of_training_jobs_keep_budget_gpus_and_consent(name: str, seed: int) -> None:
    seen = drawn_site(seed)
    plan = made(name).propose(seen, seen.now_ns, 1.0)
    assert faults(plan, seen) == []
    views = {view.job_id: view for view in seen.jobs}
    given_to = {one.job_id: one for one in plan.assignments}
    for view in seen.jobs:
        if view.current is not None:
            assert given_to[view.job_id].shares == view.current.shares
    for one in plan.preemptions:
        view = views[one.job_id]
        assert view.preemptable
        assert view.movable
        assert 0 <= view.started_ns < seen.now_ns
    assert name == "andreas" or not plan.preemptions
    assert made(name).propose(seen, seen.now_ns, 1.0) == plan
    for one in plan.assignments:
        view, node_id = views[one.job_id], one.shares[0].node_id
        if view.current is not None:
            continue
        assert not view.spec.among or node_id in view.spec.among
        if node_id == "v0" and seen.reservations:
            (window,) = seen.reservations
            ends_ns = seen.now_ns + round(one.expected_total_s * S)
            assert not window.meets(seen.now_ns, ends_ns)


class Course:
    """Rounds in which jobs start, are preempted immediately, and end as planned."""

    def __init__(self, jobs: list[JobView], seed: int) -> None:
        rng = random.Random(seed)
        self.nodes = [gpu_node("v0"), gpu_node("v1"), gpu_node("t0", "T4", 1, tdp_w=70)]
        self.jobs = {view.job_id: view for view in jobs}
        self.now_ns, self.preempted, self.rng = 0, 0, rng

    def pass_time(self, span_ns: int) -> None:
        self.now_ns += span_ns
        for view in list(self.jobs.values()):
            if view.current is None:
                continue
            done = view.done + span_ns / S / view.current.expected_total_s
            if done >= 1:
                del self.jobs[view.job_id]
            else:
                self.jobs[view.job_id] = replace(view, done=done)

    def decide(self, policy: Policy) -> Plan:
        """Plan repeatedly at one instant until no job is preempted."""
        for _ in range(20):
            there = [v for v in self.jobs.values() if v.submitted_ns <= self.now_ns]
            seen = replace(snapshot(self.nodes, there), now_ns=self.now_ns)
            plan = policy.propose(seen, self.now_ns, 1.0)
            assert faults(plan, seen) == []
            for one in plan.assignments:
                view = self.jobs[one.job_id]
                started_ns = view.started_ns if view.current else self.now_ns
                self.jobs[one.job_id] = replace(
                    view, current=one, started_ns=started_ns, preemptable=True
                )
            if not plan.preemptions:
                return plan
            for gone in plan.preemptions:
                self.preempted += 1
                self.jobs[gone.job_id] = replace(
                    self.jobs[gone.job_id], current=None, started_ns=-1, preemptable=False
                )
        raise AssertionError("jobs are pre-empted for ever in one instant")


@pytest.mark.parametrize("name", ["andreas", "priority"])
def test_all_training_jobs_end_in_a_course_of_rounds(name: str) -> None:
    rng = random.Random(5)
    jobs = []
    for number in range(14):
        view = drawn_job(rng, f"j{number}", 0)
        jobs.append(
            replace(
                view,
                submitted_ns=number * 200 * S,
                spec=replace(
                    view.spec,
                    due_ns=(number * 200 + 3000) * S,
                    among=(),
                    memory_bytes=0,
                    size_min=1,
                ),
            )
        )
    course, policy = Course(jobs, 1), made(name)
    rounds = 0
    while course.jobs:
        course.decide(policy)
        course.pass_time(200 * S)
        rounds += 1
        assert rounds < 1000, f"{len(course.jobs)} jobs do not end"
    assert (course.preempted > 0) == (name == "andreas")
