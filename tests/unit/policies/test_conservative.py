"""Conservative backfilling over named nodes: planned starts and later changes to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import S, faults, held, job, node, reasons, snapshot, starts_s

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.conservative_search import PROMISED, WAITS
from wattfold.coordinator.policies.backfill.promises import LAG_NS, expected_end_ns
from wattfold.coordinator.policies.fifo.conservative import Conservative
from wattfold.coordinator.policies.fifo.settings import ConservativeSettings

LAG = LAG_NS / S
QUEUES = (Queue(name="low"), Queue(name="high", preempts=("low",)))
ODD = {"max_w": 40}


def whole(name: str, nodes: int, time_s: float = 100, **fields: Any) -> JobView:
    kinds: dict[str, Any] = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID}
    return job(name, nodes, nodes, time_s=time_s, **kinds, **fields)


def cores(name: str, size: int, time_s: float = 100, **fields: Any) -> JobView:
    return job(name, size, size, time_s=time_s, kind=JobKind.RIGID, **fields)


def runs(name: str, where: str, started_s: float, time_s: float = 100, **fields: Any) -> JobView:
    spec = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID, **fields}
    given = held(name, where)
    return job(name, 1, 1, time_s=time_s, current=given, started_s=started_s, **spec)


def promised(view: JobView, start_s: float, *nodes: str) -> JobView:
    return replace(view, promise=Promise(round(start_s * S), tuple(map(NodeId, nodes))))


def site(*jobs: JobView, now_s: float = 0, counted: bool = True, **fields: Any) -> Snapshot:
    """Two nodes, identical or not."""
    nodes = [node("n0"), node("n1", **({} if counted else ODD))]
    return replace(snapshot(nodes, list(jobs), now_s=now_s), **fields)


def plan(seen: Snapshot, promises: int = 500) -> Plan:
    found = Conservative(ConservativeSettings(promises=promises)).propose(seen, seen.now_ns, 1.0)
    assert faults(found, seen) == []
    return found


def started(found: Plan, seen: Snapshot) -> list[str]:
    had = {view.job_id for view in seen.jobs if view.current is not None}
    return [a.job_id for a in found.assignments if a.job_id not in had]


either = pytest.mark.parametrize("counted", [True, False], ids=["counted", "searched"])


@either
def test_everybody_is_promised_the_earliest_start_that_delays_nobody_before(counted: bool) -> None:
    waits = [whole("wide", 2, 50), whole("long", 1, 71), whole("fits", 1, 70), whole("next", 2, 1)]
    seen = site(runs("r", "n0", 0), *waits, counted=counted)
    found = plan(seen)
    assert started(found, seen) == ["fits"], "70 s and the lag are just what is left"
    after = 100 + 50 + LAG
    assert starts_s(found) == {"wide": 100, "long": after, "next": after + 71 + LAG}
    assert reasons(found)["wide"] == PROMISED


@either
def test_a_promise_stands_against_a_higher_priority(counted: bool) -> None:
    first = promised(whole("first", 2, 50), 100, "n0", "n1")
    urgent = whole("urgent", 2, 50, priority=9.0)
    found = plan(site(runs("r", "n0", 0), urgent, first, counted=counted))
    assert starts_s(found) == {"first": 100, "urgent": 100 + 50 + LAG}


@either
def test_when_a_job_ends_early_all_move_up_in_order(counted: bool) -> None:
    a, b = promised(whole("a", 2, 50), 100), promised(whole("b", 2, 50, submitted_s=1), 180)
    seen = site(b, a, now_s=40, counted=counted)
    found = plan(seen)
    assert started(found, seen) == ["a"]
    assert starts_s(found) == {"b": 40 + 50 + LAG}


@either
def test_it_does_not_move_by_less_than_the_lag(counted: bool) -> None:
    waits = promised(whole("a", 2, 50), 120, "n0", "n1")
    assert starts_s(plan(site(runs("r", "n0", 0), waits, counted=counted))) == {"a": 120}


@either
def test_what_runs_a_little_late_moves_nobody_and_what_runs_long_moves_all(counted: bool) -> None:
    late = runs("r", "n0", 0), runs("s", "n1", 0, 300)
    a, b = promised(whole("a", 1, 50), 100, "n0"), promised(whole("b", 1, 50), 180, "n0")
    for now_s, starts in ((110, (100, 180)), (131, (160, 240)), (161, (220, 300))):
        found = plan(site(*late, a, b, now_s=now_s, counted=counted))
        assert starts_s(found) == dict(zip("ab", starts, strict=True))


def test_one_that_is_over_ends_at_any_moment_then_in_steps_that_double() -> None:
    found = [expected_end_ns(100, now, 10) for now in (99, 100, 110, 111, 120, 121, 139, 140, 141)]
    assert found == [100, 101, 111, 120, 140, 140, 140, 180, 180]


@either
def test_only_so_many_are_promised_a_start_and_the_others_go_before_them(counted: bool) -> None:
    waits = [whole("a", 2), whole("b", 2), whole("long", 1, 200), whole("short", 1, 60)]
    seen = site(runs("r", "n0", 0), *waits, counted=counted)
    found = plan(seen, promises=1)
    assert starts_s(found) == {"a": 100}
    assert started(found, seen) == ["short"]
    assert reasons(found)["b"] == reasons(found)["long"] == WAITS


def test_a_core_on_one_node_is_kept_where_it_was_promised() -> None:
    """Job c would fill n0 better, but it is placed on n1."""
    first = job("r", 1, 1, time_s=100, current=held("r", "n0:0"), started_s=0, kind=JobKind.RIGID)
    wide = promised(whole("wide", 1, 500, features=("big",)), 100, "n0")
    nodes = [node("n0", features=("big",)), node("n1")]
    seen = snapshot(nodes, [first, wide, cores("c", 3, 400)])
    found = plan(seen)
    assert started(found, seen) == ["c"]
    (given,) = [a for a in found.assignments if a.job_id == "c"]
    assert [share.node_id for share in given.shares] == ["n1"]
    (told,) = found.waiting
    assert told.promise == Promise(100 * S, (NodeId("n0"),))


def test_memory_and_gpus_are_kept_as_well() -> None:
    nodes = [node("n0", memory=8, gpus=2), node("n1")]
    asks = {"memory_bytes": 5, "gpus": 1}
    one, other = cores("one", 1, 100, **asks), cores("other", 1, 100, **asks)
    small = cores("small", 1, 50, memory_bytes=4)
    seen = snapshot(nodes, [one, other, small])
    found = plan(seen)
    assert started(found, seen) == ["one"]
    assert starts_s(found) == {"other": 100 + LAG, "small": 2 * (100 + LAG)}


def test_power_that_is_promised_is_not_given_away() -> None:
    """The budget is one watt short of two busy nodes."""
    seen = site(runs("r", "n0", 0), whole("a", 1), counted=False)
    short = replace(seen, budget_uw=sum(n.fixed_uw for n in seen.nodes) + 52_000_000)
    assert starts_s(plan(short)) == {"a": 100}


def leaving(seen: Snapshot, where: str) -> Snapshot:
    """A node on which a job is ending."""
    gone = Share(node_id=NodeId(where), cpus=CpuSet.of(range(4)))
    nodes = tuple(
        replace(one, blocked=gone.cpus, leaving=(gone,)) if one.spec.node_id == where else one
        for one in seen.nodes
    )
    power_uw = 29_000_000
    reserved_uw = seen.reserved_uw + power_uw
    return replace(seen, nodes=nodes, reserved_uw=reserved_uw, leaving_uw=power_uw)


@either
def test_who_waits_for_a_job_on_its_way_out_keeps_its_turn(counted: bool) -> None:
    first = promised(whole("first", 2, 50), 90, "n0", "n1")
    seen = leaving(site(first, whole("later", 1, 500), now_s=100, counted=counted), "n0")
    found = plan(replace(seen, budget_uw=110_000_000))
    assert started(found, seen) == []
    assert starts_s(found)["first"] == 90


def test_the_first_of_a_queue_that_pre_empts_goes_before_what_the_others_were_promised() -> None:
    low = replace(runs("r", "n0", 0, 100, queue="low"), preemptable=True)
    waits = promised(whole("w", 1, 100, queue="low"), 100, "n0")
    other = runs("s", "n1", 0, 900)
    high = whole("h", 1, 400, queue="high", priority=2.0)
    seen = site(low, other, high, waits, now_s=50, queues=QUEUES)
    found = plan(seen)
    assert [(one.job_id, one.for_job) for one in found.preemptions] == [("r", "h")]
    # Once the node is free, the run time of h and the lag after it.
    assert starts_s(found)["w"] == pytest.approx(50 + 400 + LAG)
    assert starts_s(found)["h"] == 50


def test_nobody_makes_way_where_that_delays_anybody_else() -> None:
    low = replace(runs("r", "n0", 0, 100, queue="low"), preemptable=True)
    waits = promised(whole("w", 1, 100), 100, "n0")
    other = runs("s", "n1", 0, 900)
    high = whole("h", 1, 400, queue="high", priority=2.0)
    found = plan(site(low, other, high, waits, now_s=50, queues=QUEUES))
    assert found.preemptions == ()
    assert starts_s(found) == {"w": 100, "h": 100 + 100 + LAG}


def test_while_others_are_on_their_way_out_for_a_job_its_place_is_kept() -> None:
    high = promised(whole("h", 1, 400, queue="high"), 50, "n0")
    seen = site(runs("s", "n1", 0, 900), whole("w", 1, 10), high, now_s=60, queues=QUEUES)
    found = plan(replace(leaving(seen, "n0"), clearing=(JobId("h"),)))
    assert found.preemptions == ()
    assert starts_s(found)["h"] == 50
    assert starts_s(found)["w"] > 400
