"""EASY on counts: what has been kept from the last decision is what a new look would find."""

from __future__ import annotations

from wattfold.coordinator.policies.backfill import EasyQueue


def overdue() -> EasyQueue:
    """Two of three units are held past their estimates; the first in the queue needs two."""
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
