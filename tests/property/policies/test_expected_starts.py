"""Expected starts against actual starts, for jobs with exact estimates."""

from __future__ import annotations

import random
from dataclasses import replace

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import S, job, node, snapshot

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.counts import EasyQueue
from wattfold.coordinator.policies.backfill.expected_starts import STARTS_MAX
from wattfold.coordinator.policies.fifo.policy import FifoEasy

NODES = 6
FCFS, EASY = FifoEasy(backfill=False), FifoEasy()


def jobs(rng: random.Random, counted: bool) -> list[JobView]:
    """Waiting jobs, on whole nodes only or partly on cores."""
    found = []
    for number in range(rng.randint(2, STARTS_MAX)):
        whole = counted or rng.random() < 0.5
        size = rng.randint(1, NODES if whole else 4)
        unit = SizeUnit.NODES if whole else SizeUnit.CORES
        time_s = rng.randint(1, 50)
        found.append(job(f"j{number}", size, size, unit=unit, kind=JobKind.RIGID, time_s=time_s))
    return found


def course(policy: FifoEasy, waiting: list[JobView]) -> tuple[dict[str, int], list[dict[str, int]]]:
    """Return the start of each job, ns, and the starts that each round expected."""
    nodes = [node(f"n{i}") for i in range(NODES)]
    views = {view.job_id: view for view in waiting}
    ends: dict[JobId, int] = {}
    started: dict[str, int] = {}
    told, now_ns = [], 0
    while views:
        seen = replace(snapshot(nodes, list(views.values())), now_ns=now_ns)
        plan = policy.propose(seen, now_ns, 1.0)
        told.append({one.job_id: one.start_ns for one in plan.waiting if one.start_ns})
        for one in plan.assignments:
            if views[one.job_id].current is None:
                started[one.job_id] = now_ns
                ends[one.job_id] = now_ns + views[one.job_id].spec.time_ns
                views[one.job_id] = replace(views[one.job_id], current=one, started_ns=now_ns)
        now_ns = min(ends.values())
        for job_id in [job_id for job_id, end_ns in ends.items() if end_ns <= now_ns]:
            del ends[job_id], views[job_id]
    return started, told


@settings(max_examples=examples(80))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_without_backfilling_all_start_when_it_was_told(seed: int, counted: bool) -> None:
    started, told = course(FCFS, jobs(random.Random(seed), counted))
    for starts in told:
        assert starts == {job_id: started[job_id] for job_id in starts}
    assert any(told) == (len(set(started.values())) > 1)


@settings(max_examples=examples(80))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_with_backfilling_the_first_starts_no_later_than_it_was_told(
    seed: int, counted: bool
) -> None:
    waiting = jobs(random.Random(seed), counted)
    started, told = course(EASY, waiting)
    order = [view.job_id for view in waiting]
    for starts in told:
        first = min(starts, key=order.index, default=None)
        assert first is None or started[first] <= starts[first]


def test_of_a_long_queue_the_first_are_told() -> None:
    queue = EasyQueue(2)
    queue.adopt(-1, 2, 7 * S)
    for number in range(3 * STARTS_MAX):
        queue.submit(number, 1, 5 * S)
    assert queue.decide(0) == []
    starts = queue.starts(0, STARTS_MAX)
    assert starts == {n: (7 + 5 * (n // 2)) * S for n in range(STARTS_MAX)}
    assert queue.starts(9 * S, 1) == {0: 9 * S}, "what is late may end at any moment"
