"""Slowdown-driven in the service: mates, lent cores, returned cores, and unchanged jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import S, W, faults, held, job, node, reasons, sizes, snapshot

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.topology import Topology
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.slowdown_driven.choice import MateEnd
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.slowdown_driven.rules import SharingSettings

SOCKETS = Topology(
    packages=(CpuSet.parse("0-3"), CpuSet.parse("4-7")),
    numa_nodes=(CpuSet.parse("0-3"), CpuSet.parse("4-7")),
    cores=tuple(CpuSet.of([cpu]) for cpu in range(8)),
)


def two_sockets(name: str, **fields: object) -> NodeView:
    view = node(name, 8, **fields)  # type: ignore[arg-type]
    return replace(view, spec=replace(view.spec, topology=SOCKETS))


def runs(name: str, place: str, low: int = 1, **fields: object) -> JobView:
    """A job with all requested cores, which has run for 100 s of 1000."""
    size = len(CpuSet.parse(place.partition(":")[2]))
    values: dict[str, object] = {"started_s": 0, "time_s": 1000, "done": 0.1, **fields}
    return job(name, low, size, current=held(name, place, total_s=1000), **values)  # type: ignore[arg-type]


def planned(seen: Snapshot, **settings: object) -> Plan:
    plan = SlowdownDriven(SharingSettings(**settings)).propose(seen, seen.now_ns, 1.0)  # type: ignore[arg-type]
    assert faults(plan, seen) == []
    return plan


def cores(plan: Plan, name: str) -> str:
    return str(next(a for a in plan.assignments if a.job_id == name).shares[0].cpus)


def at(seen_jobs: list[JobView], nodes: list[NodeView] | None = None, **more: float) -> Snapshot:
    return snapshot(nodes or [two_sockets("n0")], seen_jobs, now_s=100, **more)


def test_a_job_that_would_wait_gets_a_socket_of_one_that_runs() -> None:
    plan = planned(at([runs("a", "n0:0-7"), job("b", 1, 8, time_s=10, submitted_s=90)]))
    assert sizes(plan) == {"a": 4, "b": 4}
    assert {cores(plan, "a"), cores(plan, "b")} == {"0-3", "4-7"}
    times = {a.job_id: a.expected_total_s for a in plan.assignments}
    assert times == {"a": 2000, "b": 20}


def test_it_waits_where_that_ends_earlier() -> None:
    nearly = runs("a", "n0:0-7", time_s=105)
    waits = job("b", 1, 8, time_s=10)
    assert "b" in reasons(planned(at([nearly, waits])))
    # As in the authors' code, it shares anyway if it ends before its mate.
    later = runs("a", "n0:0-7", time_s=111)
    assert "b" in reasons(planned(at([later, job("b", 1, 8, time_s=11)])))
    shares = planned(at([later, job("b", 1, 8, time_s=11)]), benefit=False, mate_end=MateEnd.AFTER)
    assert sizes(shares) == {"a": 4, "b": 4}


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": JobKind.RIGID},
        {"kind": JobKind.MOLDABLE},
        {"mode": ResizeMode.FIXED},
        {"movable": False},
        {"exclusive": True},
        {"low": 8},
        {"tasks_per_node": 8},
        {"submitted_s": 0, "started_s": 99_000, "now_s": 99_100},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_who_does_not_lend(fields: dict[str, object]) -> None:
    now_s = float(fields.pop("now_s", 100))  # type: ignore[arg-type]
    seen = replace(
        at([runs("a", "n0:0-7", **fields), job("b", 1, 8, time_s=10)]),  # type: ignore[arg-type]
        now_ns=round(now_s * S),
    )
    assert sizes(planned(seen)) == {"a": 8}


def test_a_moldable_job_borrows_and_a_rigid_one_does_not() -> None:
    for kind, start in ((JobKind.MOLDABLE, True), (JobKind.RIGID, False)):
        waits = job("b", 8 if not start else 1, 8, time_s=10, kind=kind)
        plan = planned(at([runs("a", "n0:0-7"), waits]))
        assert ("b" in sizes(plan)) is start


def test_every_task_keeps_a_core_and_a_guest_with_more_ranks_waits() -> None:
    plan = planned(at([runs("a", "n0:0-7", tasks_per_node=6), job("b", 1, 8, time_s=10)]))
    assert sizes(plan) == {"a": 6, "b": 2}
    waits = job("b", 1, 8, time_s=10, tasks_per_node=3)
    plan = planned(at([runs("a", "n0:0-7", tasks_per_node=6), waits]))
    assert sizes(plan) == {"a": 6 + 2}


def test_a_mate_lends_to_one_guest_at_a_time() -> None:
    seen = at([runs("a", "n0:0-7"), *(job(name, 1, 8, time_s=10) for name in "bc")])
    plan = planned(seen)
    assert sizes(plan) == {"a": 4, "b": 4}
    assert "c" in reasons(plan)


def test_cores_come_back_first_to_who_started_first() -> None:
    owner = replace(runs("a", "n0:0-3", done=0.5), spec=runs("a", "n0:0-7").spec, resized_ns=50 * S)
    plan = planned(at([owner]))
    assert sizes(plan) == {"a": 8}
    assert cores(plan, "a") == "0-7"
    # The owner has ended: the guest gets the node.
    guest = job(
        "b", 1, 8, time_s=10, started_s=95, current=held("b", "n0:4-7", total_s=20), done=0.25
    )
    assert sizes(planned(at([guest]))) == {"b": 8}


def test_cores_come_back_as_far_as_power_goes() -> None:
    owner = replace(runs("a", "n0:0-3"), spec=runs("a", "n0:0-7").spec, resized_ns=50 * S)
    plan = planned(at([owner], budget_w=10 + 16 + (45 - 16) * 5 / 8))
    assert sizes(plan) == {"a": 5}


def test_the_first_that_waits_keeps_its_reservation() -> None:
    nodes = [two_sockets("n0"), two_sockets("n1")]
    both = job("w", 2, 2, unit=SizeUnit.NODES, kind=JobKind.RIGID, time_s=100)
    running = [runs("a", "n0:0-7"), runs("c", "n1:0-7")]
    small = job("b", 1, 8, time_s=10, submitted_s=90)
    seen = at([*running, both, small], nodes)
    plan = planned(seen)
    assert "b" in reasons(plan), "a mate would end later, and the first start later"
    plan = planned(seen, protects=False)
    assert "b" in sizes(plan)


def test_a_guest_needs_what_it_asks_for_beside_cores() -> None:
    nodes = [two_sockets("n0", memory=4), two_sockets("n1", memory=8, features=("big",))]
    running = [runs("a", "n0:0-7"), runs("c", "n1:0-7")]
    asks = job("b", 1, 8, time_s=10, memory_bytes=6, features=("big",))
    plan = planned(at([*running, asks], nodes))
    assert sizes(plan) == {"a": 8, "c": 4, "b": 4}


def test_a_node_that_is_lost_is_no_place_and_what_runs_there_stays() -> None:
    plan = planned(at([runs("a", "n9:0-7"), runs("c", "n0:0-7"), job("b", 1, 8, time_s=10)]))
    assert sizes(plan) == {"a": 8, "c": 4, "b": 4}


def test_sharing_keeps_the_budget() -> None:
    full_w = 10 + 16 + (45 - 16)
    plan = planned(at([runs("a", "n0:0-7"), job("b", 1, 8, time_s=10)], budget_w=full_w))
    assert sizes(plan) == {"a": 4, "b": 4}
    used = sum(a.cap_uw * a.size // 8 for a in plan.assignments)
    assert used <= 45 * W


@pytest.mark.parametrize(("before", "looked_at"), [(49, True), (50, False)])
def test_on_many_nodes_fewer_that_wait_for_cores_are_looked_at(
    before: int, looked_at: bool
) -> None:
    """20,000 node comparisons in all: 50 waiting jobs on 400 nodes."""
    nodes = [node(f"n{at}", 8) for at in range(400)]
    running = [runs(f"r{at}", f"n{at}:0-7") for at in range(400)]
    rigid = [
        job(f"w{at}", 8, 8, kind=JobKind.RIGID, time_s=10, submitted_s=80) for at in range(before)
    ]
    seen = at([*running, *rigid, job("b", 1, 8, time_s=10, submitted_s=90)], nodes)
    plan = SlowdownDriven(SharingSettings(tested=1000, protects=False)).propose(
        seen, seen.now_ns, 10.0
    )
    assert ("b" in sizes(plan)) is looked_at
