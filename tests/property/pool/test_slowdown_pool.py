"""Slowdown-driven on pools: as EASY where nobody shares, and what holds in every instant else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.pool.pools import S, table

from wattfold.coordinator.policies.easy import EasyScheduler
from wattfold.coordinator.policies.node_parts import Parts
from wattfold.coordinator.policies.scheduler import Decision
from wattfold.coordinator.policies.slowdown_driven_choice import INFINITE, Limits
from wattfold.coordinator.policies.slowdown_driven_pool import SlowdownScheduler
from wattfold.coordinator.policies.slowdown_driven_queue import Sharing, SharingRules
from wattfold.coordinator.simulation.pool.budget import Budget
from wattfold.coordinator.simulation.pool.engine import simulate
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.node_machine import NodeClass, NodeMachine
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel

NODES, CORES = 8, 16
MACHINE = NodeMachine(classes=(NodeClass.of_watts("n", NODES, CORES),))
RIGID, MOLDABLE, MALLEABLE = (
    Sharing(False, False, 4),
    Sharing(False, True, 4),
    Sharing(True, True, 4),
)


def random_jobs(seed: int, count: int = 60) -> JobTable:
    rng = random.Random(seed)
    rows, estimates = [], []
    now = 0
    for _ in range(count):
        now += rng.choice([0, 0, 3, 20])
        run = rng.choice([0, 1, 10, 100, 300])
        rows.append((now, rng.choice([1, 1, 2, 2, 4, 8]), run))
        estimates.append(run + rng.choice([0, 0, 1, 50, 500]))
    return table(*rows, estimates=estimates)


def scheduler(
    jobs: JobTable, rules: SharingRules, kinds: Sequence[int] = (), **more: Any
) -> SlowdownScheduler:
    kind_of = bytes(kinds) if kinds else bytes([2]) * len(jobs)
    return SlowdownScheduler(
        rules=rules, sharing=(RIGID, MOLDABLE, MALLEABLE), kind_of=kind_of, **more
    )


def run(jobs: JobTable, made: Any, model: RunTimeModel = RunTimeModel.IDEAL) -> RunRecord:
    return simulate(jobs, MACHINE, made, Budget.constant(MACHINE.full_uw), model=model)


class Watched(SlowdownScheduler):
    """Looks at what jobs have after each of its decisions."""

    def decide(self, now_ns: int) -> Sequence[Decision | Parts]:  # type: ignore[override]
        shadow_ns = self._shadow(now_ns)
        decisions = super().decide(now_ns)
        for decision in decisions:
            if isinstance(decision, Parts):
                self._look(decision)
        queue = self._queue
        if queue is not None and shadow_ns is not None and queue.queue[:1] == [self._head]:
            # Speeds are rounded down to whole nanoseconds of work.
            assert queue.shadow() <= shadow_ns + 1000, "the first that waits is to start later"
        return decisions

    def _shadow(self, now_ns: int) -> int | None:
        """When the first that waits would start, if it is still the first after this."""
        queue = self._queue
        if queue is None or not queue.queue or not self._rules.protects:
            return None
        self._head = queue.queue[0]
        free, shadow = queue.free, now_ns
        for ends, _, own in sorted(queue.running):
            if free >= self._head[1]:
                break
            free, shadow = free + own, max(ends, now_ns)
        return shadow

    def _look(self, parts: Parts) -> None:
        queue = self._queue
        assert queue is not None
        least = self._sharing(parts.job).least
        given = [parts.cores] if isinstance(parts.cores, int) else parts.cores
        assert all(least <= cores <= CORES for cores in given)
        if queue.guest_of(parts.job) is not None:
            taken = CORES - min(given)
            assert taken <= self._rules.factor * CORES
            assert self._sharing(parts.job).lends
        if queue.hosts_of(parts.job):
            assert self._sharing(parts.job).borrows
            if self._contiguous and parts.job in queue.shared and not self._rules.free_nodes:
                nodes = sorted(parts.nodes)
                assert nodes == list(range(nodes[0], nodes[0] + len(nodes)))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), kills=st.booleans())
def test_where_nobody_may_share_it_is_easy(seed: int, kills: bool) -> None:
    jobs = random_jobs(seed)
    none = SharingRules(limits=Limits(most_slowdown=1.0))
    shared = run(jobs, scheduler(jobs, none, kills_at_limit=kills))
    rigid = scheduler(jobs, SharingRules(), [0] * len(jobs), kills_at_limit=kills)
    easy = run(jobs, EasyScheduler(kills_at_limit=kills))
    for other in (shared, run(jobs, rigid)):
        assert np.array_equal(easy.columns.start_ns, other.columns.start_ns)
        assert np.array_equal(easy.columns.end_ns, other.columns.end_ns)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    most=st.sampled_from([5.0, 10.0, INFINITE]),
    dynamic=st.booleans(),
    benefit=st.booleans(),
    protects=st.booleans(),
    free_nodes=st.booleans(),
    factor=st.sampled_from([0.25, 0.5, 0.75]),
    contiguous=st.booleans(),
    model=st.sampled_from([RunTimeModel.IDEAL, RunTimeModel.WORST_CASE]),
)
def test_every_instant_holds_and_all_jobs_end(
    seed: int,
    most: float,
    dynamic: bool,
    benefit: bool,
    protects: bool,
    free_nodes: bool,
    factor: float,
    contiguous: bool,
    model: RunTimeModel,
) -> None:
    """The engine checks cores and power; `Watched` least cores, shares and the reservation."""
    jobs = random_jobs(seed)
    rng = random.Random(seed)
    rules = SharingRules(
        limits=Limits(most_slowdown=most),
        dynamic=dynamic,
        benefit=benefit,
        protects=protects,
        free_nodes=free_nodes,
        factor=factor,
    )
    kinds = bytes(rng.choice([0, 1, 2, 2, 2]) for _ in range(len(jobs)))
    made = Watched(
        rules=rules,
        sharing=(RIGID, MOLDABLE, MALLEABLE),
        kind_of=kinds,
        contiguous=contiguous,
    )
    record = run(jobs, made, model)
    assert (record.columns.end_ns >= record.columns.start_ns).all()
    # No job is done in less time than on all it asked for, to the rounding of shares done.
    took = record.columns.end_ns - record.columns.start_ns
    assert (took >= jobs.run_ns - 1000).all()


def test_a_guest_takes_half_and_its_mate_gets_it_back() -> None:
    # The second would wait for 100 s; beside the first it takes 20 s.
    jobs = table((0, 8, 100), (10, 8, 10))
    made = scheduler(jobs, SharingRules())
    record = run(jobs, made)
    assert made.started_beside == 1
    assert record.columns.start_ns.tolist() == [0, 10 * S]
    # It loses half of 20 s: what its guest did.
    assert record.columns.end_ns.tolist() == pytest.approx([110 * S, 30 * S], abs=1000)
    assert record.columns.resizes.tolist() == [2, 0]


def test_an_owner_that_ends_first_leaves_its_nodes_to_its_guest() -> None:
    # It said 100 s and takes 15: its guest has done 2.5 of 10 s at 15 s.
    jobs = table((0, 8, 15), (10, 8, 10), estimates=(100, 10))
    record = run(jobs, scheduler(jobs, SharingRules()))
    # Half as fast from 10 s on, so it ends at 20 s; the guest has done 5 s then.
    assert record.columns.end_ns.tolist() == pytest.approx([20 * S, 25 * S], abs=1000)


def test_a_moldable_guest_keeps_what_it_started_with() -> None:
    jobs = table((0, 8, 15), (10, 8, 10), estimates=(100, 10))
    record = run(jobs, scheduler(jobs, SharingRules(), [2, 1]))
    assert record.columns.end_ns.tolist() == pytest.approx([20 * S, 30 * S], abs=1000)


def test_unbalanced_guests_are_as_slow_as_the_worst_model_says() -> None:
    # The owner of half of the guest's nodes ends first.
    rows = [(0, 4, 15), (0, 4, 200), (10, 8, 20)]
    jobs = table(*rows, estimates=(200, 200, 20))
    ideal = run(jobs, scheduler(jobs, SharingRules()))
    worst = run(jobs, scheduler(jobs, SharingRules()), RunTimeModel.WORST_CASE)
    assert ideal.columns.start_ns.tolist() == [0, 0, 10 * S]
    assert ideal.columns.end_ns[2] < worst.columns.end_ns[2] == pytest.approx(50 * S, abs=1000)
