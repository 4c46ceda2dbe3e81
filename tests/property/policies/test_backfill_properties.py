"""Backfilling on counts against its definition, and against the exact policy of the service."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from unit.policies.snapshots import job, node, snapshot

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.counts import EasyQueue
from wattfold.coordinator.policies.backfill.reservations import ConservativeQueue
from wattfold.coordinator.policies.fifo.policy import FifoEasy

UNITS = 6
JOBS = st.lists(
    st.tuples(
        st.integers(0, 30),  # submission
        st.integers(1, UNITS),  # size
        st.integers(1, 12),  # estimate
        st.integers(0, 12),  # run time is shorter by
    ),
    min_size=1,
    max_size=25,
)


def run(jobs, queue, look=lambda queue, now: None):
    """Return the starts of jobs in a queue, processing one event after the other."""
    arrivals = sorted((submit, number) for number, (submit, *_) in enumerate(jobs))
    ends: list[tuple[int, int, int]] = []
    starts: dict[int, int] = {}
    while arrivals or ends:
        if arrivals and (not ends or arrivals[0][0] <= min(ends)[0]):
            now, number = arrivals.pop(0)
            queue.submit(number, jobs[number][1], jobs[number][2])
        else:
            now, order, number = min(ends)
            ends.remove((now, order, number))
            queue.end(number)
        for started in queue.decide(now):
            starts[started] = now
            _, _, estimate, less = jobs[started]
            ends.append((now + max(estimate - less, 1), len(starts), started))
        look(queue, now)
    return starts


class ByDefinition:
    """EASY from its definition, recomputed in every pass. Jobs end at their limits."""

    def __init__(self, units: int) -> None:
        self.units = units
        self.queue: list[tuple[int, int, int]] = []
        self.running: dict[int, tuple[int, int]] = {}

    def submit(self, number: int, size: int, estimate: int) -> None:
        self.queue.append((number, size, estimate))

    def end(self, number: int) -> None:
        del self.running[number]

    def free_at(self, time: int) -> int:
        return self.units - sum(size for size, ends in self.running.values() if ends > time)

    def start(self, entry: tuple[int, int, int], now: int) -> int:
        number, size, estimate = entry
        self.queue.remove(entry)
        self.running[number] = (size, now + estimate)
        return number

    def decide(self, now: int) -> list[int]:
        started: list[int] = []
        while self.queue and self.queue[0][1] <= self.free_at(now):
            started.append(self.start(self.queue[0], now))
        if not self.queue:
            return started
        need = self.queue[0][1]
        times = sorted(ends for _, ends in self.running.values() if ends > now)
        shadow = next(time for time in times if self.free_at(time) >= need)
        extra = self.free_at(shadow) - need
        for entry in self.queue[1:]:
            _, size, estimate = entry
            if size > self.free_at(now):
                continue
            if now + estimate <= shadow:
                started.append(self.start(entry, now))
            elif size <= extra:
                extra -= size
                started.append(self.start(entry, now))
        return started


@given(JOBS)
def test_easy_is_what_its_authors_wrote(jobs):
    assert run(jobs, EasyQueue(UNITS, kills_at_limit=True)) == run(jobs, ByDefinition(UNITS))


@given(JOBS)
def test_conservative_keeps_every_promise(jobs):
    promised: dict[int, int] = {}

    def look(queue: ConservativeQueue, now: int) -> None:
        held = sum(size for ends, size in queue._ends.values() if ends > now)
        assert held <= UNITS
        for number, start in queue.reserved.items():
            assert start is not None
            assert now < start <= promised.get(number, start)
            promised[number] = start

    starts = run(jobs, ConservativeQueue(UNITS, kills_at_limit=True), look)
    assert len(starts) == len(jobs)
    assert all(starts[number] <= start for number, start in promised.items())


@given(JOBS)
def test_conservative_with_exact_estimates_is_first_come_earliest_place(jobs):
    """No job ends early, so the planned start at submission is the actual start."""
    exact = [(submit, size, estimate, 0) for submit, size, estimate, _ in jobs]
    first: dict[int, int] = {}

    def look(queue: ConservativeQueue, now: int) -> None:
        for number, start in queue.reserved.items():
            first.setdefault(number, start if start is not None else -1)

    starts = run(exact, ConservativeQueue(UNITS, kills_at_limit=True), look)
    assert all(starts[number] == start for number, start in first.items())


NODE_JOBS = st.lists(
    st.tuples(st.integers(1, UNITS), st.integers(1, 50), st.integers(0, 40)), max_size=12
)


@given(NODE_JOBS, st.integers(0, 6), st.floats(0, 400))
def test_counting_decides_as_the_exact_search_does(rows, running, budget_w):
    """A node that differs only in its power curve makes the policy use the exact search."""
    now_s = 50.0
    nodes = [node(f"n{k}", floor_w=10) for k in range(UNITS)]
    other = replace(nodes[-1].spec, curve=None)
    unlike = [*nodes[:-1], replace(nodes[-1], spec=other)]
    plans = []
    for machine in (nodes, unlike):
        views = []
        held = 0
        for k, (size, estimate, submitted) in enumerate(rows):
            runs = k < running and held + size <= UNITS
            places = [f"n{held + i}" for i in range(size)] if runs else []
            held += size if runs else 0
            current = assignment(f"j{k}", places, size) if runs else None
            views.append(
                job(
                    f"j{k}",
                    size,
                    size,
                    unit=SizeUnit.NODES,
                    kind=JobKind.RIGID,
                    time_s=estimate,
                    submitted_s=submitted,
                    started_s=submitted if runs else -1,
                    current=current,
                )
            )
        seen = snapshot(machine, views, budget_w=UNITS * 20 + budget_w, now_s=now_s)
        plans.append(FifoEasy().propose(seen, seen.now_ns, 1.0))
    counted, exact = plans
    assert [a.job_id for a in counted.assignments] == [a.job_id for a in exact.assignments]
    assert counted.assignments == exact.assignments
    assert {w.job_id: w.reason for w in counted.waiting} == {
        w.job_id: w.reason for w in exact.waiting
    }


def assignment(name: str, places: list[str], size: int) -> Assignment:
    shares = tuple(Share(node_id=NodeId(p), cpus=CpuSet.of(range(4))) for p in places)
    return Assignment(job_id=JobId(name), size=size, cap_uw=45_000_000, shares=shares)


@given(JOBS, st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=25, max_size=25))
def test_a_priority_is_a_place_in_the_queue(jobs, priorities):
    """Jobs of equal priority wait in order of submission."""

    class Ranked:
        def __init__(self, queue):
            self.queue = queue

        def submit(self, number, size, estimate):
            self.queue.submit(number, size, estimate, priorities[number])

        def __getattr__(self, name):
            return getattr(self.queue, name)

    def look(ranked, now):
        waiting = [entry[0] if isinstance(entry, tuple) else entry for entry in ranked.queue.queue]
        ordered = sorted(waiting, key=lambda n: (-priorities[n], jobs[n][0], n))
        assert waiting == ordered

    for queue in (
        EasyQueue(UNITS, kills_at_limit=True),
        ConservativeQueue(UNITS, kills_at_limit=True),
    ):
        assert len(run(jobs, Ranked(queue), look)) == len(jobs)
