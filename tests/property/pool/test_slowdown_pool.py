"""Slowdown-driven on pools: equal to EASY without sharing, and invariants at every instant."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.pool.pools import S, table

from wattfold.coordinator.models.pass_model import APPLICATIONS
from wattfold.coordinator.policies.backfill.counts import AT_ONCE, Passes
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.port import Parts
from wattfold.coordinator.policies.slowdown_driven.choice import INFINITE, MateEnd
from wattfold.coordinator.policies.slowdown_driven.pool import (
    BrokenRuleError,
    CheckedSlowdownScheduler,
    SlowdownScheduler,
)
from wattfold.coordinator.policies.slowdown_driven.queue import SlowdownQueue
from wattfold.coordinator.policies.slowdown_driven.rules import (
    NodeSharing,
    PowerSharing,
    SharingSettings,
)
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel

NODES, CORES = 8, 16
MACHINE = NodeMachine(classes=(NodeClass.of_watts("n", NODES, CORES),))
RIGID, MOLDABLE, MALLEABLE = (
    NodeSharing(False, False, 4),
    NodeSharing(False, True, 4),
    NodeSharing(True, True, 4),
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
    jobs: JobTable, rules: SharingSettings, kinds: Sequence[int] = (), **more: Any
) -> SlowdownScheduler:
    kind_of = bytes(kinds) if kinds else bytes([2]) * len(jobs)
    return SlowdownScheduler(
        rules=rules, sharing=(RIGID, MOLDABLE, MALLEABLE), kind_of=kind_of, **more
    )


def run(jobs: JobTable, made: Any, model: RunTimeModel = RunTimeModel.IDEAL) -> RunRecord:
    return simulate(jobs, MACHINE, made, BudgetSchedule.constant(MACHINE.full_uw), model=model)


class Watched(CheckedSlowdownScheduler):
    """Checks the cores and nodes of jobs after each of its decisions."""

    def _look_at(self, parts: Parts, queue: SlowdownQueue, now_ns: int) -> None:
        super()._look_at(parts, queue, now_ns)
        beside = parts.job in queue.shared and queue.hosts_of(parts.job)
        if beside and self._rules.contiguous and not self._rules.free_nodes:
            nodes = sorted(parts.nodes)
            assert nodes == list(range(nodes[0], nodes[0] + len(nodes)))


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**9), kills=st.booleans(), passes=PASSES)
def test_where_nobody_may_share_it_is_easy(seed: int, kills: bool, passes: Passes) -> None:
    jobs = random_jobs(seed)
    none = SharingSettings(max_slowdown=1.0)
    more: dict[str, Any] = {"kills_at_limit": kills, "passes": passes}
    shared = run(jobs, scheduler(jobs, none, **more))
    rigid = scheduler(jobs, SharingSettings(), [0] * len(jobs), **more)
    easy = run(jobs, EasyScheduler(**more))
    for other in (shared, run(jobs, rigid)):
        assert np.array_equal(easy.columns.start_ns, other.columns.start_ns)
        assert np.array_equal(easy.columns.end_ns, other.columns.end_ns)


@settings(max_examples=examples(80))
@given(
    seed=st.integers(0, 10**9),
    most=st.sampled_from([5.0, 10.0, INFINITE]),
    mate_end=st.sampled_from(list(MateEnd)),
    dynamic=st.booleans(),
    benefit=st.booleans(),
    protects=st.booleans(),
    free_nodes=st.booleans(),
    factor=st.sampled_from([0.25, 0.5, 0.75]),
    contiguous=st.booleans(),
    model=st.sampled_from([RunTimeModel.IDEAL, RunTimeModel.WORST_CASE]),
    passes=PASSES,
    power=st.sampled_from(list(PowerSharing)),
    weight=st.sampled_from([0.0, 1.0, 10.0]),
)
def test_every_instant_holds_and_all_jobs_end(
    seed: int,
    most: float,
    mate_end: MateEnd,
    dynamic: bool,
    benefit: bool,
    protects: bool,
    free_nodes: bool,
    factor: float,
    contiguous: bool,
    model: RunTimeModel,
    passes: Passes,
    power: PowerSharing,
    weight: float,
) -> None:
    """The engine checks cores and power; `Watched` checks minimum cores, shares and the
    reservation.
    """
    jobs = random_jobs(seed)
    rng = random.Random(seed)
    rules = SharingSettings(
        max_slowdown=most,
        mate_end=mate_end,
        cutoff="dynamic" if dynamic else "fixed",
        benefit=benefit,
        protects=protects,
        free_nodes=free_nodes,
        contiguous=contiguous,
        sharing_factor=factor,
        power=power,
        energy_weight=weight,
    )
    kinds = bytes(rng.choice([0, 1, 2, 2, 2]) for _ in range(len(jobs)))
    made = Watched(
        rules=rules,
        sharing=(RIGID, MOLDABLE, MALLEABLE),
        kind_of=kinds,
        passes=passes,
    )
    record = run(jobs, made, model)
    assert (record.columns.end_ns >= record.columns.start_ns).all()
    # No job takes less time than on all requested cores, up to rounding of the progress.
    took = record.columns.end_ns - record.columns.start_ns
    assert (took >= jobs.run_ns - 1000).all()


def with_profiles(jobs: JobTable, seed: int) -> JobTable:
    """Jobs with far less or slightly less than proportional losses; run times do not change."""
    rng = random.Random(seed)
    profiles = []
    for size, run_ns in zip(jobs.size_max.tolist(), jobs.run_ns.tolist(), strict=True):
        base = rng.choice(list(APPLICATIONS.values()))
        shape = replace(base, average_parallelism=rng.uniform(1, 8), sigma=rng.random())
        at_full_s = shape.time_s(size, shape.p_high_w)
        profiles.append(shape.scaled(max(run_ns, 1) / 1e9 / at_full_s))
    return replace(jobs, profiles=tuple(profiles))


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 10**9),
    power=st.sampled_from(list(PowerSharing)),
    free_nodes=st.booleans(),
    factor=st.sampled_from([0.25, 0.5, 0.75]),
    falls=st.booleans(),
)
def test_jobs_with_profiles_share_within_a_budget_that_falls(
    seed: int, power: PowerSharing, free_nodes: bool, factor: float, falls: bool
) -> None:
    """The engine checks the budget at every instant; all jobs end."""
    jobs = with_profiles(random_jobs(seed, 40), seed)
    rules = SharingSettings(
        max_slowdown=INFINITE, power=power, sharing_factor=factor, free_nodes=free_nodes
    )
    made = Watched(
        rules=rules,
        sharing=(MALLEABLE,),
        kind_of=bytes(len(jobs)),
        kills_at_limit=False,
        profiles=jobs.profiles,
    )
    least_uw, most_uw = MACHINE.idle_total_uw + 1, MACHINE.full_uw
    steps = [(0, most_uw), (50 * S, least_uw), (400 * S, most_uw)] if falls else [(0, most_uw)]
    budget = BudgetSchedule(steps=tuple(BudgetStep(at_ns=at, budget_uw=uw) for at, uw in steps))
    record = simulate(jobs, MACHINE, made, budget, model=RunTimeModel.PASS)
    assert (record.columns.end_ns >= record.columns.start_ns).all()
    assert record.over_budget_ns == 0
    assert record.peak_committed_uw <= most_uw


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), free_nodes=st.booleans())
def test_under_a_budget_that_stands_only_energy_makes_a_difference(
    seed: int, free_nodes: bool
) -> None:
    jobs = random_jobs(seed)
    made = [
        scheduler(jobs, SharingSettings(power=power, free_nodes=free_nodes))
        for power in (PowerSharing.ANY, PowerSharing.WATTS)
    ]
    starts = [run(jobs, one).columns.start_ns for one in made]
    assert np.array_equal(*starts)


def test_short_of_power_jobs_share_with_any_alone() -> None:
    """At 5 s the budget falls below the power of the first job; the second job arrives then."""
    jobs = with_profiles(table((0, 8, 100), (10, 8, 10), (300, 1, 1)), 3)
    below = BudgetSchedule(
        steps=(
            BudgetStep(at_ns=0, budget_uw=MACHINE.full_uw),
            BudgetStep(at_ns=5 * S, budget_uw=MACHINE.idle_total_uw + 1),
            BudgetStep(at_ns=200 * S, budget_uw=MACHINE.full_uw),
        )
    )
    for power, guests in ((PowerSharing.ANY, 1), (PowerSharing.WATTS, 0), (PowerSharing.WEIGH, 0)):
        made = scheduler(jobs, SharingSettings(power=power), profiles=jobs.profiles)
        simulate(jobs, MACHINE, made, below, model=RunTimeModel.PASS)
        assert made.started_beside == guests


def test_a_job_shares_though_nodes_are_free_where_that_saves_energy() -> None:
    jobs = table((0, 4, 1000), (10, 4, 10))
    flat = replace(APPLICATIONS["Lulesh"], average_parallelism=1.5, sigma=1.0)
    for base, guests in ((flat, 1), (replace(flat, average_parallelism=100.0, sigma=0.0), 0)):
        at_full_s = base.time_s(4, base.p_high_w)
        profiles = tuple(base.scaled(run_s / at_full_s) for run_s in (1000, 10))
        with_some = replace(jobs, profiles=profiles)
        made = scheduler(with_some, SharingSettings(power=PowerSharing.WEIGH), profiles=profiles)
        record = run(with_some, made, RunTimeModel.PASS)
        assert made.started_beside == guests
        assert record.columns.start_ns.tolist() == [0, 10 * S]


def test_a_broken_rule_is_told() -> None:
    """A decision under rules other than the checked rules fails."""

    class Reckless(CheckedSlowdownScheduler):
        def submit(self, job: int, now_ns: int) -> None:
            assert self._queue is not None
            self._queue.rules = SharingSettings(sharing_factor=0.75)
            super().submit(job, now_ns)

    jobs = table((0, 8, 100), (1, 8, 5), (2, 8, 50))
    made = Reckless(rules=SharingSettings(), sharing=(MALLEABLE,), kind_of=bytes(3))
    with pytest.raises(BrokenRuleError, match="lends 12 of 16 cores"):
        run(jobs, made)


def test_a_guest_takes_half_and_its_mate_gets_it_back() -> None:
    # The second job would wait for 100 s; with a share of the first job's cores it takes 20 s.
    jobs = table((0, 8, 100), (10, 8, 10))
    made = scheduler(jobs, SharingSettings())
    record = run(jobs, made)
    assert made.started_beside == 1
    assert record.columns.start_ns.tolist() == [0, 10 * S]
    # It loses half of 20 s: the work of its guest.
    assert record.columns.end_ns.tolist() == pytest.approx([110 * S, 30 * S], abs=1000)
    assert record.columns.resizes.tolist() == [2, 0]


def test_a_job_that_would_gain_too_little_waits() -> None:
    # It would end at 110 s. By sharing it ends at 30 s, with a slowdown lower by 8.
    jobs = table((0, 8, 100), (10, 8, 10))
    for least, guests in ((7.0, 1), (9.0, 0)):
        made = scheduler(jobs, SharingSettings(least_gain=least))
        run(jobs, made)
        assert made.started_beside == guests


def test_between_two_passes_nobody_starts_beside_mates() -> None:
    jobs = table((0, 8, 100), (10, 8, 10))
    made = scheduler(jobs, SharingSettings(), passes=Passes(every=23 * S))
    record = run(jobs, made)
    assert record.columns.start_ns.tolist() == [0, 23 * S]


def test_an_owner_that_ends_first_leaves_its_nodes_to_its_guest() -> None:
    # It requested 100 s and takes 15 s: its guest has done 2.5 of 10 s at 15 s.
    jobs = table((0, 8, 15), (10, 8, 10), estimates=(100, 10))
    record = run(jobs, scheduler(jobs, SharingSettings()))
    # Half as fast from 10 s on, so it ends at 20 s; the guest has done 5 s by then.
    assert record.columns.end_ns.tolist() == pytest.approx([20 * S, 25 * S], abs=1000)


def test_a_moldable_guest_keeps_what_it_started_with() -> None:
    jobs = table((0, 8, 15), (10, 8, 10), estimates=(100, 10))
    record = run(jobs, scheduler(jobs, SharingSettings(), [2, 1]))
    assert record.columns.end_ns.tolist() == pytest.approx([20 * S, 30 * S], abs=1000)


def test_unbalanced_guests_are_as_slow_as_the_worst_model_says() -> None:
    # The owner of half of the guest's nodes ends first.
    rows = [(0, 4, 15), (0, 4, 200), (10, 8, 20)]
    jobs = table(*rows, estimates=(200, 200, 20))
    ideal = run(jobs, scheduler(jobs, SharingSettings()))
    worst = run(jobs, scheduler(jobs, SharingSettings()), RunTimeModel.WORST_CASE)
    assert ideal.columns.start_ns.tolist() == [0, 0, 10 * S]
    assert ideal.columns.end_ns[2] < worst.columns.end_ns[2] == pytest.approx(50 * S, abs=1000)
