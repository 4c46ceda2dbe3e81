"""The bookkeeping that skips jobs without mates changes no decision."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import cast

import numpy as np
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.pool.test_slowdown_pool import (
    CORES,
    MALLEABLE,
    MOLDABLE,
    RIGID,
    random_jobs,
    run,
    with_profiles,
)

from wattfold.coordinator.policies.port import Site
from wattfold.coordinator.policies.slowdown_driven.choice import (
    INFINITE,
    Guest,
    Lender,
    MateChoice,
    MateEnd,
    MateLimits,
    select,
)
from wattfold.coordinator.policies.slowdown_driven.lenders import Lenders
from wattfold.coordinator.policies.slowdown_driven.pool import SlowdownScheduler
from wattfold.coordinator.policies.slowdown_driven.queue import SlowdownQueue
from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing, SharingSettings
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel


class PlainLenders(Lenders):
    """Searches among all mates every time."""

    def none_since(self, job: int, most_slowdown: float) -> bool:
        return False

    def any_for(self, job: int, guest: Guest, now: int, limits: MateLimits) -> bool:
        return select(guest, self.now.values(), now, limits, allowed=self.allowed) is not None

    def able(self, guest: Guest, now: int, limits: MateLimits) -> Collection[Lender]:
        return self.now.values()


class PlainQueue(SlowdownQueue):
    """Examines every job again, and computes every static start before the search for mates."""

    def _malleable(
        self,
        job: int,
        size: int,
        asked: int,
        now: int,
        free: int,
        before: list[tuple[int, int, int]],
    ) -> MateChoice | None:
        self._alike.clear()
        if asked:
            self._static_end(size, asked, now, before)
        return super()._malleable(job, size, asked, now, free, before)


class PlainScheduler(SlowdownScheduler):
    """The policy without skipped searches."""

    def site(self, site: Site) -> None:
        super().site(site)
        queue = cast("SlowdownQueue", self._queue)
        if not isinstance(queue, PlainQueue):
            made = PlainQueue(
                self._units,
                queue.cores,
                self._sharing,
                self._rules,
                kills_at_limit=self._kills_at_limit,
                allowed=queue._allowed,
            )
            lenders = made._lenders
            made._lenders = PlainLenders(lenders.most_lent, lenders.mates, lenders.allowed)
            self._queue = made


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 10**9),
    most=st.sampled_from([5.0, 10.0, INFINITE]),
    dynamic=st.booleans(),
    protects=st.booleans(),
    mates=st.integers(1, 3),
    mapped=st.sampled_from([0, 3, 32]),
    factor=st.sampled_from([0.25, 0.5, 0.75]),
    contiguous=st.booleans(),
    profiled=st.booleans(),
    power=st.sampled_from(list(PowerSharing)),
    mate_end=st.sampled_from(list(MateEnd)),
)
def test_what_is_spared_changes_no_decision(
    seed: int,
    most: float,
    dynamic: bool,
    protects: bool,
    mates: int,
    mapped: int,
    factor: float,
    contiguous: bool,
    profiled: bool,
    power: PowerSharing,
    mate_end: MateEnd,
) -> None:
    jobs = random_jobs(seed, count=100)
    model = RunTimeModel.IDEAL
    if profiled:
        jobs, model = with_profiles(jobs, seed), RunTimeModel.PASS
    rules = SharingSettings(
        max_slowdown=most,
        mates=mates,
        mate_end=mate_end,
        cutoff="dynamic" if dynamic else "fixed",
        protects=protects,
        mapped=mapped,
        sharing_factor=factor,
        contiguous=contiguous,
        power=power,
    )
    rng = random.Random(seed)
    kinds = bytes(rng.choice([0, 1, 2, 2, 2]) for _ in range(len(jobs)))
    records = [
        run(
            jobs,
            made(
                rules=rules,
                sharing=(RIGID, MOLDABLE, MALLEABLE),
                kind_of=kinds,
                profiles=jobs.profiles,
            ),
            model,
        ).columns
        for made in (SlowdownScheduler, PlainScheduler)
    ]
    for name in ("start_ns", "end_ns", "resizes"):
        assert np.array_equal(*(getattr(columns, name) for columns in records)), name


def test_the_static_schedule_is_what_runs_and_waits_whoever_asked_before() -> None:
    queue = SlowdownQueue(8, CORES, lambda _: MALLEABLE, SharingSettings())
    queue.enter(0, 6, 100, 1.0, 0)
    assert queue.decide(0) == [0]
    first = [(1, 8, 50)]
    # Behind the first job, which waits for all nodes until 100.
    assert queue._static_end(2, 200, 10, first) == 350
    queue.enter(2, 2, 500, 1.0, 10)
    queue._begin(2, 2, 500, 10)
    # Now the first job starts at 510, so another job fits at 100.
    assert queue._static_end(2, 200, 10, first) == 300


def test_who_was_turned_down_is_looked_at_again_once_those_that_started_may_lend() -> None:
    queue = SlowdownQueue(8, CORES, lambda _: MALLEABLE, SharingSettings())
    queue.enter(0, 8, 100, 1.0, 0)
    queue.enter(1, 8, 10, 1.0, 0)
    assert queue.decide(0) == [0], "it lends to nobody in the instant of its start"
    queue.enter(2, 8, 500, 1.0, 10)
    assert queue.decide(10) == [1]


def test_a_job_without_mates_is_looked_at_again_when_one_may_join() -> None:
    lenders = Lenders(CORES // 2, 2, lambda _: True)
    guest, limits = Guest(nodes=4, asked=10, cores=CORES, least=1), MateLimits()

    def lender(job: int, nodes: int, ends: int) -> Lender:
        return Lender(job, nodes, waited=0, asked=100, ends=ends, lends=CORES // 2)

    assert not lenders.any_for(1, guest, 0, limits)
    assert lenders.none_since(1, limits.most_slowdown)
    lenders.join(lender(7, nodes=3, ends=90))
    assert not lenders.none_since(1, limits.most_slowdown)
    assert not lenders.any_for(1, guest, 0, limits)  # No lender has the fourth node.
    lenders.join(lender(8, nodes=1, ends=90))
    assert lenders.any_for(1, guest, 0, limits)
    assert lenders.any_for(1, guest, 70, limits)
    assert not lenders.any_for(1, guest, 71, limits)  # The guest would end after its mates.
    lenders.forget(1)
    lenders.leave(8)
    assert not lenders.any_for(1, guest, 0, limits)
