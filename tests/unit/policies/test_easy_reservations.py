"""EASY around reserved nodes: starts before a window, and the head of each queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unit.policies.snapshots import S, held, job, node, reasons, snapshot, starts_s

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy

H = 3600.0


def whole(name: str, nodes: int, time_s: float, **fields: Any) -> JobView:
    kinds: dict[str, Any] = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID}
    return job(name, nodes, nodes, time_s=time_s, **kinds, **fields)


def site(*jobs: JobView, **fields: Any) -> Snapshot:
    """Nodes n0 and n1. The reservation of n0 starts in two hours and lasts an hour."""
    given: dict[str, Any] = {"maintenance": True, **fields}
    one = Reservation(
        name="r", nodes=(NodeId("n0"),), start_ns=round(2 * H * S), end_ns=round(3 * H * S), **given
    )
    return replace(snapshot([node("n0"), node("n1")], list(jobs)), reservations=(one,))


def plan(seen: Snapshot) -> Plan:
    return FifoEasy().propose(seen, seen.now_ns, 1.0)


def starts(seen: Snapshot) -> set[str]:
    had = {view.job_id for view in seen.jobs if view.current is not None}
    return {a.job_id for a in plan(seen).assignments} - had


def test_the_first_waits_for_the_end_of_the_window_and_shorter_ones_go_before() -> None:
    seen = site(whole("wide", 2, 3 * H), whole("short", 1, 2 * H), whole("fits", 1, 3 * H))
    assert starts(seen) == {"short", "fits"}
    assert reasons(plan(seen))["wide"] == "node n0 is reserved for maintenance (r)"


def test_nobody_delays_the_first_beyond_the_window() -> None:
    """At three hours the wide job needs both nodes, so a job of four hours on n1 would delay it."""
    assert starts(site(whole("wide", 2, 3 * H), whole("long", 1, 4 * H))) == set()


def test_the_node_that_is_not_reserved_is_found() -> None:
    (placed,) = plan(site(whole("long", 1, 9 * H))).assignments
    assert [share.node_id for share in placed.shares] == ["n1"]


def test_one_that_waits_for_its_window_is_not_the_first_of_the_others() -> None:
    """Otherwise no nodes would be reserved for the wide job, and it would starve behind the other
    job.
    """
    ours: dict[str, Any] = {"maintenance": False, "users": ("ann",), "when": "at two"}
    later = whole("later", 1, H, reservation="r")
    runs = whole("runs", 1, 1 * H, current=held("runs", "n1", total_s=H), started_s=0)
    wide, long = whole("wide", 2, 600), whole("long", 1, 1.5 * H)
    seen = site(later, runs, wide, long, **ours)
    assert starts(seen) == set(), "at one hour both nodes are for the wide job"
    told = reasons(plan(seen))
    assert told["later"] == "reservation r at two has not started"
    assert told["wide"].startswith("first in the queue")


def test_inside_its_window_its_jobs_come_before_those_that_wait_longer() -> None:
    ours: dict[str, Any] = {"maintenance": False, "users": ("ann",)}
    mine = [whole(f"m{i}", 1, H, reservation="r", submitted_s=9) for i in range(2)]
    seen = replace(site(whole("w", 2, 600), *mine, **ours), now_ns=round(2 * H * S))
    assert starts(seen) == {"m0"}
    told = reasons(plan(seen))
    assert told["m1"].startswith("first in the queue")
    assert told["w"] == "first in the queue"
    assert starts_s(plan(seen))["w"] == 3 * H
