"""Decisions of EASY at the instant of the shadow time, in exact examples.

Each example decides one comparison: the job that just fits starts, the next longer or larger job
waits. The examples run on counts (`backfill`, `reservations`) and on the exact search of
`fifo_easy`, which decides for jobs that count cores.
"""

from __future__ import annotations

import pytest
from unit.policies.snapshots import (
    S,
    W,
    faults,
    held,
    job,
    node,
    reasons,
    sizes,
    snapshot,
    starts_s,
)

from wattfold.coordinator.core.model.plan import JobView, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.counts import EasyQueue
from wattfold.coordinator.policies.backfill.reservations import ConservativeQueue
from wattfold.coordinator.policies.fifo.policy import FifoEasy

EASY = FifoEasy()


def started(queue: EasyQueue | ConservativeQueue, *jobs: tuple[int, int], now: int = 0) -> set[int]:
    """Submit jobs (size, estimate), numbered in order, and return the jobs that start now."""
    for number, (size, estimate) in enumerate(jobs):
        queue.submit(number, size, estimate)
    return set(queue.decide(now))


def easy(units: int, *ends: tuple[int, int], kills: bool = False) -> EasyQueue:
    """A pool with running jobs (size, end)."""
    queue = EasyQueue(units, kills_at_limit=kills)
    for number, (size, end) in enumerate(ends):
        queue.adopt(-1 - number, size, end)
    return queue


def test_a_job_that_ends_at_the_shadow_time_starts_and_one_that_ends_after_waits() -> None:
    assert started(easy(3, (2, 100)), (3, 10), (1, 100)) == {1}
    assert started(easy(3, (2, 100)), (3, 10), (1, 101)) == set()


def test_the_room_is_counted_from_now() -> None:
    assert started(easy(3, (2, 100)), (3, 10), (1, 60), now=40) == {1}
    assert started(easy(3, (2, 100)), (3, 10), (1, 61), now=40) == set()


def test_a_long_job_takes_all_of_the_extra_but_no_more() -> None:
    assert started(easy(4, (2, 100)), (3, 10), (1, 500)) == {1}
    assert started(easy(4, (2, 100)), (3, 10), (1, 500), (1, 500)) == {1}
    assert started(easy(4, (2, 100)), (3, 10), (1, 100), (1, 500)) == {1, 2}


def test_a_job_that_fills_the_free_units_starts() -> None:
    assert started(easy(4, (2, 100)), (4, 10), (2, 100)) == {1}
    assert started(easy(4, (2, 100)), (4, 10), (3, 100)) == set()


def test_jobs_that_end_together_are_all_extra() -> None:
    """Two jobs end at 100; the head of the queue needs one of their units, the other is extra."""
    assert started(easy(3, (1, 100), (1, 100)), (2, 10), (1, 500)) == {1}
    assert started(easy(3, (1, 100), (1, 101)), (2, 10), (1, 500)) == set()


def test_a_job_at_its_limit_is_gone_only_where_sites_kill() -> None:
    assert started(easy(2, (2, 100), kills=True), (2, 10), now=100) == {0}
    assert started(easy(2, (2, 100), kills=True), (2, 10), now=99) == set()
    assert started(easy(2, (2, 100)), (2, 10), now=100) == set()


def test_a_late_arrival_that_ends_at_the_shadow_time_starts() -> None:
    queue = easy(3, (2, 100))
    assert started(queue, (3, 10), now=10) == set()
    queue.submit(7, 1, 80)
    queue.submit(8, 1, 81)
    assert queue.decide(20) == [7]


def test_a_promise_is_met_by_a_job_that_ends_just_then() -> None:
    def promised(estimate: int) -> set[int]:
        queue = ConservativeQueue(3)
        queue.adopt(-1, 2, 100)
        return started(queue, (3, 10), (1, estimate))

    assert promised(100) == {1}
    assert promised(101) == set()


def test_a_promise_starts_when_the_one_before_it_ends() -> None:
    queue = ConservativeQueue(1)
    assert started(queue, (1, 10), (1, 5)) == {0}
    assert queue.reserved == {1: 10}
    queue.end(0)
    assert queue.decide(7) == [1]


def test_units_that_come_free_early_go_to_the_first_in_order() -> None:
    """The second job would fit before the planned start of the first job, which moves up."""
    queue = ConservativeQueue(1)
    assert started(queue, (1, 10), (1, 10), (1, 5)) == {0}
    assert queue.reserved == {1: 10, 2: 20}
    queue.end(0)
    assert queue.decide(5) == [1]
    assert queue.reserved == {2: 15}


# The exact search: jobs that count cores, on a node of four at 45 W over a floor of 16 W.


def cores(name: str, size: int, time_s: float, at_s: float = 0) -> JobView:
    return job(name, size, size, time_s=time_s, submitted_s=at_s)


def busy(name: str, places: str, time_s: float) -> JobView:
    current = held(name, places)
    return job(name, 1, 4, current=current, started_s=0, time_s=time_s)


def starts(seen: Snapshot) -> set[str]:
    out = EASY.propose(seen, seen.now_ns, 1.0)
    assert faults(out, seen) == []
    running = {view.job_id for view in seen.jobs if view.current is not None}
    return set(sizes(out)) - running


@pytest.mark.parametrize(("time_s", "starts_now"), [(100, True), (100.5, False)])
def test_cores_are_backfilled_up_to_the_shadow_time(time_s: float, starts_now: bool) -> None:
    jobs = [busy("r", "n0:0-1", 100), cores("head", 4, 10), cores("late", 1, time_s, at_s=1)]
    assert ("late" in starts(snapshot([node("n0")], jobs))) is starts_now


@pytest.mark.parametrize(("time_s", "starts_now"), [(60, True), (60.5, False)])
def test_cores_are_backfilled_from_now_on(time_s: float, starts_now: bool) -> None:
    jobs = [busy("r", "n0:0-1", 100), cores("head", 4, 10), cores("late", 1, time_s, at_s=1)]
    assert ("late" in starts(snapshot([node("n0")], jobs, now_s=40))) is starts_now


def test_cores_beside_the_first_are_given_away_for_any_time() -> None:
    jobs = [busy("r", "n0:0-1", 100), cores("head", 3, 10), cores("a", 1, 500, 1)]
    assert starts(snapshot([node("n0")], jobs)) == {"a"}
    jobs.append(cores("b", 1, 500, 2))
    assert starts(snapshot([node("n0")], jobs)) == {"a"}, "the extra is used up"


def test_cores_that_come_free_together_are_all_looked_at() -> None:
    jobs = [
        busy("r", "n0:0", 100),
        busy("q", "n0:1", 100),
        cores("head", 3, 10),
        cores("a", 1, 500, 1),
    ]
    assert starts(snapshot([node("n0")], jobs)) == {"a"}


@pytest.mark.parametrize(("spare_uw", "starts_now"), [(0, True), (-1, False)])
def test_power_that_just_does_is_enough(spare_uw: int, starts_now: bool) -> None:
    one = node("n0")
    budget_uw = one.fixed_uw + 29 * W + spare_uw
    seen = snapshot([one], [cores("a", 4, 10)], budget_w=budget_uw / W)
    assert seen.budget_uw == budget_uw
    assert ("a" in starts(seen)) is starts_now


def test_the_reservation_is_told_as_a_time() -> None:
    jobs = [busy("r", "n0:0-1", 100), cores("head", 4, 10)]
    out = EASY.propose(snapshot([node("n0")], jobs, now_s=40), 40 * S, 1.0)
    assert reasons(out)["head"] == "first in the queue"
    assert starts_s(out)["head"] == 100


def test_nodes_and_cores_decide_alike_at_the_shadow_time() -> None:
    """The same jobs on counts (whole nodes) and by the exact search (cores of a node)."""
    for time_s in (99, 100, 101):
        by_cores = [busy("r", "n0:0-1", 100), cores("head", 4, 10), cores("a", 2, time_s, 1)]
        by_nodes = [
            job(
                "r",
                2,
                2,
                unit=SizeUnit.NODES,
                current=held("r", "n0", "n1"),
                started_s=0,
                time_s=100,
            ),
            job("head", 4, 4, unit=SizeUnit.NODES, time_s=10),
            job("a", 2, 2, unit=SizeUnit.NODES, time_s=time_s, submitted_s=1),
        ]
        four = [node(f"n{i}") for i in range(4)]
        assert starts(snapshot([node("n0")], by_cores)) == starts(snapshot(four, by_nodes))
