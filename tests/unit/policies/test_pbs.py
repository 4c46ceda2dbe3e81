"""PBS's order with backfilling: starts in each reading of the paper, and reserved resources."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.policies.snapshots import faults, held, job, node, reasons, sizes, snapshot, starts_s

from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.backfill.pbs_search import BESIDE, FULL, KEPT, UNSEEN, PbsSearch
from wattfold.coordinator.policies.backfill.timeline import NodesHold, Timeline
from wattfold.coordinator.policies.driver.rounds import Rounds
from wattfold.coordinator.policies.fifo.pbs import DEPTHS, Pbs, PbsScheduler
from wattfold.coordinator.policies.fifo.settings import PbsSettings

NODES = [node(f"n{i}") for i in range(4)]


def waits(name: str, nodes: int, time_s: float, **fields: Any) -> JobView:
    """A waiting job for whole nodes."""
    chosen: dict[str, Any] = {"kind": JobKind.RIGID, "unit": SizeUnit.NODES, **fields}
    return job(name, nodes, nodes, time_s=time_s, **chosen)


def runs(name: str, places: Iterable[str], time_s: float) -> JobView:
    there = held(name, *places)
    return waits(name, len(there.shares), time_s, current=there, started_s=0)


def planned(policy: Pbs, *views: JobView, nodes: list[NodeView] = NODES) -> Plan:
    seen = snapshot(nodes, list(views), now_s=1)
    plan = policy.propose(seen, seen.now_ns, 1.0)
    assert faults(plan, seen) == []
    return plan


def started(policy: Pbs, *views: JobView) -> set[str]:
    return {name for name in sizes(planned(policy, *views)) if name != "r"}


RUNS = runs("r", ("n0", "n1", "n2"), 101)
"""A running job that leaves one node free for a hundred seconds."""


def test_in_order_of_submission_or_the_shortest_first() -> None:
    long, short = waits("long", 3, 50), waits("short", 3, 10, submitted_s=0.5)
    assert started(Pbs(order="fifo"), long, short) == {"long"}
    assert started(Pbs(order="walltime"), long, short) == {"short"}
    urgent = replace(long, spec=replace(long.spec, priority=2.0))
    assert started(Pbs(order="walltime"), urgent, short) == {"long"}


def test_a_later_job_slips_in_where_it_delays_nobody_for_whom_room_is_kept() -> None:
    first = waits("first", 4, 10)
    assert started(Pbs(), RUNS, first, waits("ends", 1, 100, submitted_s=0.5)) == {"ends"}
    late = planned(Pbs(), RUNS, first, waits("late", 1, 101, submitted_s=0.5))
    assert sizes(late) == {"r": 3}
    assert starts_s(late) == {"first": 101}
    assert reasons(late) == {"first": KEPT, "late": KEPT}


def test_room_is_kept_for_the_first_ones_alone() -> None:
    """A job behind two blocked jobs, of two and of all nodes, starts if only the first has a
    reservation.
    """
    first = waits("first", 2, 1000, submitted_s=0.1)
    second = waits("second", 4, 10, submitted_s=0.2)
    third = waits("third", 1, 2000, submitted_s=0.3)
    assert started(Pbs(PbsSettings(depth=1)), RUNS, first, second, third) == {"third"}
    assert started(Pbs(PbsSettings(depth=2)), RUNS, first, second, third) == set()


def test_nobody_is_looked_at_behind_the_first_that_wait() -> None:
    first = waits("first", 4, 10)
    second = waits("second", 1, 5, submitted_s=0.5)
    for depth, slips in ((1, set()), (2, {"second"})):
        assert started(Pbs(PbsSettings(reading="look", depth=depth)), RUNS, first, second) == slips
    assert started(Pbs(PbsSettings(depth=1)), RUNS, first, second) == {"second"}
    plan = planned(Pbs(PbsSettings(reading="look", depth=1)), RUNS, first, second)
    assert reasons(plan)["second"] == UNSEEN


def test_a_short_job_has_its_room_before_a_long_one_that_came_first() -> None:
    most, rest = runs("r", ("n0", "n1"), 101), runs("s", ("n2",), 51)
    wide, long = waits("wide", 4, 10, submitted_s=0.1), waits("long", 2, 80, submitted_s=0.2)
    short, now = waits("short", 2, 30, submitted_s=0.3), waits("now", 1, 60, submitted_s=0.4)
    plan = planned(Pbs(), most, rest, wide, long, short, now)
    assert starts_s(plan) == {"wide": 101, "long": 111, "short": 51}
    assert "now" not in sizes(plan)


def test_where_room_is_kept_after_the_end_of_who_starts_is_not_worked_out() -> None:
    brief, late = waits("brief", 1, 100, submitted_s=0.2), waits("late", 1, 101, submitted_s=0.3)
    wide = waits("wide", 4, 10, submitted_s=0.1)
    for slips, told in ((brief, {}), (late, {"wide": 101})):
        plan = planned(Pbs(), RUNS, wide, slips)
        assert ("brief" in sizes(plan), starts_s(plan)) == (slips is brief, told)


def test_the_depths_are_those_of_the_paper() -> None:
    assert DEPTHS == {"fifo": 10, "walltime": 400}
    blocked = [waits(f"b{i:02}", 4, 10, submitted_s=i / 100) for i in range(10)]
    last = waits("last", 2, 1000, submitted_s=0.5)
    slips = waits("slips", 1, 100_000, submitted_s=0.6)
    # Resources are reserved for ten jobs of four nodes each, and for no job behind them.
    assert started(Pbs(), RUNS, *blocked[:9], last, slips) == set()
    assert started(Pbs(), RUNS, *blocked, last) == set()
    assert planned(Pbs(PbsSettings(depth=11)), RUNS, *blocked, last).assignments == (RUNS.current,)


def test_on_a_full_machine_room_is_kept_for_nobody() -> None:
    """No job could be delayed, so the search computes no reservations."""
    full = runs("r", ("n0", "n1", "n2", "n3"), 101)
    later = waits("later", 1, 10, submitted_s=0.5)
    seen = snapshot(NODES, [full, waits("first", 4, 10), later], now_s=1)
    plan = planned_by(PbsScheduler(Pbs(), search=Lazy), seen)
    assert sizes(plan) == {"r": 4}
    assert starts_s(plan) == {}


class Lazy(PbsSearch):
    """Search that fails if it reserves resources."""

    def _keep_room(self, one: Any, timeline: Timeline) -> NodesHold | None:
        raise AssertionError("room is kept")


def planned_by(scheduler: PbsScheduler, seen: Snapshot) -> Plan:
    """Plan all jobs with a scheduler in its initial state."""
    rounds = Rounds(scheduler)
    rounds.tell(seen, seen.jobs, ())
    return rounds.plan(seen.now_ns)


def units(name: str, size: int, time_s: float, **fields: Any) -> JobView:
    chosen: dict[str, Any] = {"unit_cores": 2, **fields}
    return job(name, size, size, time_s=time_s, kind=JobKind.RIGID, unit=SizeUnit.UNITS, **chosen)


def test_room_is_kept_for_units_on_parts_of_nodes() -> None:
    """Two cores of n0 are in use until 101, and four units wait for all cores.

    A unit may start before them only if it ends by then.
    """
    machine = [node("n0"), node("n1")]
    taken = job("r", 2, 2, kind=JobKind.RIGID, current=held("r", "n0:0-1"), started_s=0, time_s=101)
    wide = units("wide", 4, 10)
    for time_s, starts in ((100, True), (101, False)):
        small = units("small", 1, time_s, submitted_s=0.5)
        plan = planned(Pbs(), taken, wide, small, nodes=machine)
        assert ("small" in sizes(plan)) == starts


class Eager(PbsSearch):
    """Search that reserves for blocked jobs as they come and remembers nothing."""

    def _fits_now(self, request: Any, timeline: Any) -> bool:
        del request
        while self._blocked:
            self._keep_room(self._blocked.popleft(), timeline)
        self._failed.clear()
        return True

    def _begins_ns(self, one: Any, timeline: Any) -> int:
        del one, timeline
        return self._now_ns


def crowd(seed: int) -> Snapshot:
    """Four nodes that are partly in use for some time, and many waiting jobs of few shapes."""
    rng = random.Random(seed)
    views = [
        job(
            f"r{number}",
            cores,
            cores,
            kind=JobKind.RIGID,
            current=held(f"r{number}", f"n{number}:0-{cores - 1}"),
            started_s=0,
            time_s=rng.randint(2, 60),
        )
        for number in range(4)
        if (cores := rng.randint(0, 4))
    ]
    shapes: list[dict[str, Any]] = [
        {"unit": SizeUnit.NODES},
        {"unit": SizeUnit.CORES},
        {"unit": SizeUnit.UNITS, "unit_cores": 2},
        {"unit": SizeUnit.UNITS, "unit_cores": 1, "spread": Spread.APART},
    ]
    for number in range(rng.randint(1, 20)):
        size = rng.randint(1, 4)
        chosen = rng.choice(shapes)
        time_s = rng.randint(1, 60)
        views.append(job(f"w{number}", size, size, kind=JobKind.RIGID, time_s=time_s, **chosen))
    return snapshot(NODES, views, now_s=1)


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 10**9),
    order=st.sampled_from(sorted(DEPTHS)),
    reading=st.sampled_from(["reserve", "look"]),
    depth=st.integers(1, 6),
)
def test_what_is_left_out_makes_no_difference(
    seed: int, order: str, reading: str, depth: int
) -> None:
    seen = crowd(seed)
    policy = Pbs(PbsSettings(reading=reading, depth=depth), order=order)
    plan = policy.propose(seen, seen.now_ns, 1.0)
    assert faults(plan, seen) == []
    eager = planned_by(PbsScheduler(policy, search=Eager), seen)
    assert eager.assignments == plan.assignments
    known = starts_s(plan).items()
    assert known <= starts_s(eager).items()


@pytest.mark.parametrize("name", ["pbs-fifo", "pbs-walltime"])
def test_what_is_known_of_a_site_goes_with_it(name: str) -> None:
    """After the memory of a node shrinks, a job that could start before cannot start."""
    entry = registry.find(name)
    assert entry is not None
    policy = entry.service({})
    assert isinstance(policy, Pbs)
    rounds = Rounds(policy.scheduler())
    asks = waits("a", 1, 10, memory_bytes=3)
    for memory, starts in ((4, 1), (2, 0), (4, 1)):
        seen = snapshot([node("n0", memory=memory), node("n1", memory=1)], [], now_s=1)
        rounds.tell(seen, [asks], ())
        assert len(rounds.plan(seen.now_ns).assignments) == starts
        rounds.tell(seen, [], [asks.job_id])


def test_reasons_name_what_is_in_the_way() -> None:
    first = waits("first", 4, 10)
    full = runs("r", ("n0", "n1", "n2", "n3"), 101)
    many = [waits(f"w{i}", 1, 50, submitted_s=0.1 + i / 100) for i in range(3)]
    assert set(reasons(planned(Pbs(PbsSettings(depth=1)), full, first, *many)).values()) == {
        KEPT,
        FULL,
    }
    late = [waits(f"l{i}", 1, 500, submitted_s=0.1 + i / 100) for i in range(3)]
    assert set(reasons(planned(Pbs(PbsSettings(depth=1)), RUNS, first, *late)).values()) == {
        KEPT,
        BESIDE,
    }
