"""EASY on counts: the state kept since the last decision gives the same result as a new search."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.policies.backfill.counts import EasyQueue, Passes


def overdue() -> EasyQueue:
    """Two of three units are held past their estimates; the head of the queue needs two."""
    queue = EasyQueue(3)
    queue.adopt(0, 1, 100)
    queue.adopt(1, 1, 150)
    queue.submit(2, 2, 10)
    return queue


def test_a_shadow_time_that_has_passed_is_looked_up_anew() -> None:
    kept, new = overdue(), overdue()
    assert kept.decide(50) == []
    for queue in (kept, new):
        queue.submit(3, 1, 500)
    assert kept.decide(200) == new.decide(200) == [3]


def test_a_running_job_whose_end_moves_is_the_same_job() -> None:
    queue = overdue()
    queue.adopt(0, 1, 300)
    assert queue.free == 1
    assert queue.decide(10) == []
    assert queue.shadow() == 150


def test_ends_of_those_that_are_to_start_count_among_those_of_running_jobs() -> None:
    queue = EasyQueue(4)
    queue.adopt(0, 2, 100)
    queue.adopt(1, 2, 50)
    for number in (2, 3, 4):
        queue.submit(number, 2, 30)
    # The last job uses the nodes that the first started job leaves at 80, or others that end at
    # 110.
    assert queue.starts(0, 3) == {2: 50, 3: 80, 4: 100}


def passing(passes: Passes) -> EasyQueue:
    """Two units, one of them held until 100; the head of the queue needs both."""
    queue = EasyQueue(2, passes=passes)
    queue.adopt(0, 1, 100)
    queue.submit(1, 2, 10)
    return queue


def test_between_two_passes_jobs_start_only_in_order() -> None:
    queue = passing(Passes(every=23))
    queue.submit(2, 1, 10)
    assert queue.decide(5) == []
    assert queue.due == 23
    assert queue.decide(23) == [2]
    assert queue.due == 0


def test_without_a_pass_the_first_starts_where_it_fits() -> None:
    queue = passing(Passes(every=23))
    assert queue.decide(24) == []
    queue.end(0)
    assert queue.decide(25) == [1]


def test_a_pass_looks_at_the_front_of_the_queue() -> None:
    queue = passing(Passes(looked=2))
    queue.submit(2, 2, 10)
    queue.submit(3, 1, 10)
    assert queue.decide(5) == []
    assert passing_with_all(EasyQueue(2)) == [3]


def passing_with_all(queue: EasyQueue) -> list[int]:
    queue.adopt(0, 1, 100)
    for job, size in ((1, 2), (2, 2), (3, 1)):
        queue.submit(job, size, 10)
    return queue.decide(5)


def test_a_job_that_moves_up_is_looked_at_when_others_have_started() -> None:
    queue = EasyQueue(4, passes=Passes(looked=2))
    queue.adopt(0, 1, 100)
    for job, size in ((1, 4), (2, 1), (3, 1)):
        queue.submit(job, size, 10)
    assert queue.decide(5) == [2]
    queue.submit(4, 1, 10)
    assert queue.decide(6) == [3]


@given(seed=st.integers(0, 10**9))
def test_limited_passes_decide_as_one_that_keeps_nothing(seed: int) -> None:
    rng = random.Random(seed)
    passes = Passes(looked=rng.choice([0, 1, 2, 4]), every=rng.choice([0, 7]))
    kept, forgetful = EasyQueue(8, passes=passes), EasyQueue(8, passes=passes)
    runs: list[int] = []
    now = job = 0
    for _ in range(60):
        now += rng.choice([0, 1, 5])
        if runs and rng.random() < 0.4:
            ended = runs.pop(rng.randrange(len(runs)))
            kept.end(ended)
            forgetful.end(ended)
        else:
            size, estimate = rng.choice([1, 2, 4, 8]), rng.choice([3, 20, 100])
            kept.submit(job, size, estimate)
            forgetful.submit(job, size, estimate)
            job += 1
        forgetful.resize(0)  # It forgets the jobs that the last pass rejected.
        started = kept.decide(now)
        assert started == forgetful.decide(now)
        runs += started
