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

from wattfold.coordinator.policies.backfill import AT_ONCE, Passes
from wattfold.coordinator.policies.easy import EasyScheduler
from wattfold.coordinator.policies.node_parts import Parts
from wattfold.coordinator.policies.slowdown_driven_check import (
    BrokenRuleError,
    CheckedSlowdownScheduler,
)
from wattfold.coordinator.policies.slowdown_driven_choice import INFINITE, Limits
from wattfold.coordinator.policies.slowdown_driven_pool import SlowdownScheduler
from wattfold.coordinator.policies.slowdown_driven_queue import (
    Sharing,
    SharingRules,
    SlowdownQueue,
)
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


PASSES = st.sampled_from(
    [AT_ONCE, Passes(looked=3), Passes(every=23 * S), Passes(looked=2, every=7 * S)]
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


class Watched(CheckedSlowdownScheduler):
    """Looks at what jobs have after each of its decisions, and where they are."""

    def _look_at(self, parts: Parts, queue: SlowdownQueue, now_ns: int) -> None:
        super()._look_at(parts, queue, now_ns)
        beside = parts.job in queue.shared and queue.hosts_of(parts.job)
        if beside and self._contiguous and not self._rules.free_nodes:
            nodes = sorted(parts.nodes)
            assert nodes == list(range(nodes[0], nodes[0] + len(nodes)))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), kills=st.booleans(), passes=PASSES)
def test_where_nobody_may_share_it_is_easy(seed: int, kills: bool, passes: Passes) -> None:
    jobs = random_jobs(seed)
    none = SharingRules(limits=Limits(most_slowdown=1.0))
    more: dict[str, Any] = {"kills_at_limit": kills, "passes": passes}
    shared = run(jobs, scheduler(jobs, none, **more))
    rigid = scheduler(jobs, SharingRules(), [0] * len(jobs), **more)
    easy = run(jobs, EasyScheduler(**more))
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
    passes=PASSES,
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
    passes: Passes,
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
        passes=passes,
    )
    record = run(jobs, made, model)
    assert (record.columns.end_ns >= record.columns.start_ns).all()
    # No job is done in less time than on all it asked for, to the rounding of shares done.
    took = record.columns.end_ns - record.columns.start_ns
    assert (took >= jobs.run_ns - 1000).all()


def test_a_broken_rule_is_told() -> None:
    """What is decided by other rules than the check goes by does not pass."""

    class Reckless(CheckedSlowdownScheduler):
        def submit(self, job: int, now_ns: int) -> None:
            assert self._queue is not None
            self._queue.rules = SharingRules(factor=0.75)
            super().submit(job, now_ns)

    jobs = table((0, 8, 100), (1, 8, 5), (2, 8, 50))
    made = Reckless(rules=SharingRules(), sharing=(MALLEABLE,), kind_of=bytes(3))
    with pytest.raises(BrokenRuleError, match="lends 12 of 16 cores"):
        run(jobs, made)


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


def test_a_job_that_would_gain_too_little_waits() -> None:
    # It would end at 110 s; beside the first it ends at 30 s, a slowdown lower by 8.
    jobs = table((0, 8, 100), (10, 8, 10))
    for least, guests in ((7.0, 1), (9.0, 0)):
        made = scheduler(jobs, SharingRules(least_gain=least))
        run(jobs, made)
        assert made.started_beside == guests


def test_between_two_passes_nobody_starts_beside_mates() -> None:
    jobs = table((0, 8, 100), (10, 8, 10))
    made = scheduler(jobs, SharingRules(), passes=Passes(every=23 * S))
    record = run(jobs, made)
    assert record.columns.start_ns.tolist() == [0, 23 * S]


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
