"""Slowdown-driven in the service for jobs on whole nodes: mates, lent and returned cores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import W, held, job, node, reasons, snapshot
from unit.policies.test_slowdown_driven import two_sockets

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.rounds import Rounds
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.slowdown_driven.rules import SharingSettings

BOTH = CoreSharing.BOTH


def whole(name: str, nodes: int, **fields: object) -> JobView:
    values: dict[str, object] = {"time_s": 10, "submitted_s": 90, **fields}
    return job(name, nodes, nodes, unit=SizeUnit.NODES, **{"sharing": BOTH, **values})  # type: ignore[arg-type]


def runs(name: str, *places: str, **fields: object) -> JobView:
    """A job that has run for 100 s of 1000 on these nodes; ``n0`` means all cores of that node."""
    places = tuple(place if ":" in place else f"{place}:0-7" for place in places)
    given = replace(held(name, *places, total_s=1000), size=len(places))
    values: dict[str, object] = {"started_s": 0, "time_s": 1000, "done": 0.1, "submitted_s": 0}
    return whole(name, len(places), current=given, **{**values, **fields})


def at(jobs: list[JobView], nodes: int = 2, **more: float) -> Snapshot:
    return snapshot([two_sockets(f"n{i}") for i in range(nodes)], jobs, now_s=100, **more)


def planned(seen: Snapshot, **settings: object) -> Plan:
    return SlowdownDriven(SharingSettings(**settings)).propose(seen, seen.now_ns, 1.0)  # type: ignore[arg-type]


def cores(plan: Plan) -> dict[str, dict[str, str]]:
    return {
        a.job_id: {share.node_id: str(share.cpus) for share in a.shares} for a in plan.assignments
    }


def test_a_mate_shrinks_on_all_its_nodes_each_to_a_socket() -> None:
    plan = planned(at([runs("a", "n0", "n1"), whole("b", 2)]))
    given = cores(plan)
    for name in ("n0", "n1"):
        assert {given["a"][name], given["b"][name]} == {"0-3", "4-7"}
    by_name = {a.job_id: a for a in plan.assignments}
    assert (by_name["a"].size, by_name["b"].size) == (2, 2)
    assert (by_name["a"].expected_total_s, by_name["b"].expected_total_s) == (2000, 20)


def test_the_nodes_of_mates_add_up_to_those_asked_for() -> None:
    mates = [runs("a", "n0"), runs("c", "n1"), runs("d", "n2")]
    assert len(cores(planned(at([*mates, whole("b", 2)], 3)))["b"]) == 2
    # Three mates of one node each exceed the limit of two.
    assert "b" in reasons(planned(at([*mates, whole("b", 3)], 3)))
    assert len(cores(planned(at([*mates, whole("b", 3)], 3), mates=3))["b"]) == 3
    # A mate of two nodes is no mate for a job of one node.
    assert "b" in reasons(planned(at([runs("a", "n0", "n1"), whole("b", 1)])))


def test_free_nodes_complete_a_combination_if_they_may() -> None:
    seen = at([runs("a", "n0"), whole("b", 2)])
    assert "b" in reasons(planned(seen))
    given = cores(planned(seen, free_nodes=True))["b"]
    assert given == {"n0": "4-7", "n1": "0-7"}


@pytest.mark.parametrize(
    "fields",
    [
        {"sharing": CoreSharing.NO},
        {"sharing": CoreSharing.AS_KIND},
        {"sharing": CoreSharing.BORROW},
        {"kind": JobKind.RIGID},
        {"kind": JobKind.MOLDABLE},
        {"mode": ResizeMode.FIXED},
        {"mode": ResizeMode.RESTART},
        {"movable": False},
        {"tasks_per_node": 8},
    ],
    ids=str,
)
def test_who_does_not_lend(fields: dict[str, object]) -> None:
    seen = at([runs("a", "n0", "n1", **fields), whole("b", 2)])
    assert "b" in reasons(planned(seen))


@pytest.mark.parametrize(
    "fields",
    [
        {"sharing": CoreSharing.NO},
        {"sharing": CoreSharing.LEND},
        {"kind": JobKind.RIGID},
        {"tasks_per_node": 5},
        {"features": ("big",)},
        {"memory_bytes": 9},
    ],
    ids=str,
)
def test_who_does_not_borrow(fields: dict[str, object]) -> None:
    seen = at([runs("a", "n0", "n1"), whole("b", 2, **fields)])
    assert "b" in reasons(planned(seen))


def test_every_rank_keeps_a_core_of_every_node() -> None:
    given = cores(planned(at([runs("a", "n0", "n1", tasks_per_node=6), whole("b", 2)])))
    assert [len(cpus.split("-")) for cpus in given["b"].values()] == [2, 2]
    for name in ("n0", "n1"):
        assert given["b"][name] in ("0-1", "6-7")


def test_a_queue_has_a_factor_and_a_cut_off_of_its_own() -> None:
    seen = at([runs("a", "n0", "n1", queue="careful"), whole("b", 2)])
    quarter = replace(seen, queues=(Queue(name="careful", sharing_factor=0.25),))
    given = cores(planned(quarter))["b"]
    assert all(cpus in ("0-1", "6-7", "4-5") for cpus in given.values()), given
    strict = replace(seen, queues=(Queue(name="careful", max_slowdown=1.001),))
    assert "b" in reasons(planned(strict))
    # The queue's value replaces the policy's value.
    free = replace(seen, queues=(Queue(name="careful", max_slowdown=0.0),))
    assert "b" in cores(planned(free, max_slowdown=1.001))


def test_cores_come_back_on_every_node_and_those_of_an_owner_that_ended_go_to_its_guest() -> None:
    short = {"resized_s": 50, "done": 0.5}
    owner = runs("a", "n0:0-3", "n1:0-3", **short)
    assert cores(planned(at([owner])))["a"] == {"n0": "0-7", "n1": "0-7"}
    guest = runs("b", "n0:4-7", "n1:4-7", started_s=95)
    assert cores(planned(at([guest])))["b"] == {"n0": "0-7", "n1": "0-7"}
    keeps = runs("b", "n0:4-7", "n1:4-7", started_s=95, kind=JobKind.MOLDABLE)
    assert cores(planned(at([keeps])))["b"] == {"n0": "4-7", "n1": "4-7"}


def test_the_owner_comes_before_its_guest() -> None:
    """A second mate has ended: its node goes to the guest, and no cores of the first mate do."""
    owner = runs("a", "n0:0-3", resized_s=50, done=0.5)
    guest = runs("b", "n0:4-7", "n1:4-7", started_s=95)
    given = cores(planned(at([owner, guest])))
    assert given == {"a": {"n0": "0-3"}, "b": {"n0": "4-7", "n1": "0-7"}}


def test_of_two_that_are_short_the_first_gets_free_cores_first() -> None:
    first = runs("a", "n0:0-1", resized_s=50, done=0.5, started_s=0)
    later = runs("b", "n0:4-5", resized_s=50, started_s=60)
    given = cores(planned(at([later, first])))
    assert given["b"] == {"n0": "4-5"}
    assert given["a"] == {"n0": "0-3,6-7"}


def test_a_job_with_a_node_out_of_reach_is_no_mate() -> None:
    plan = planned(at([runs("a", "n0", "n9"), runs("c", "n1"), whole("b", 2)]))
    assert "b" in reasons(plan)
    assert cores(plan)["a"] == {"n0": "0-7", "n9": "0-7"}


def test_cores_come_back_as_far_as_power_goes() -> None:
    owner = runs("a", "n0:0-3", "n1:0-3", resized_s=50, done=0.5)
    full_w = 2 * (10 + 16)
    plan = planned(at([owner], budget_w=full_w + (45 - 16) * 13 / 8))
    assert sum(len(share.cpus) for share in plan.assignments[0].shares) == 13


def test_a_shared_node_is_charged_as_one_job_that_has_it() -> None:
    full_w = 2 * (10 + 45)
    plan = planned(at([runs("a", "n0", "n1"), whole("b", 2)], budget_w=full_w))
    assert set(cores(plan)) == {"a", "b"}
    levels = sum(a.cap_uw * len(share.cpus) // 8 for a in plan.assignments for share in a.shares)
    assert levels <= 2 * 45 * W


def test_nothing_moves_of_a_job_with_a_node_out_of_reach() -> None:
    """Its guest has ended, but the node is unreachable, so no other guest may start."""
    shared = runs("a", "n0:0-3", "n9:0-3", resized_s=50, done=0.5, movable=False)
    plan = planned(at([shared, whole("b", 2), whole("c", 1)]))
    assert cores(plan)["a"] == {"n0": "0-3", "n9": "0-3"}
    assert "b" in reasons(plan)
    assert cores(plan)["c"] == {"n1": "0-7"}


def test_the_first_that_waits_keeps_its_time() -> None:
    running = [runs("a", "n0"), runs("c", "n1")]
    first = whole("w", 2, time_s=100, submitted_s=80, sharing=CoreSharing.NO)
    seen = at([*running, first, whole("b", 1)])
    assert "b" in reasons(planned(seen))
    assert "b" in cores(planned(seen, protects=False))


def test_a_guest_of_a_mate_that_lends_already_waits() -> None:
    plan = planned(at([runs("a", "n0", "n1"), whole("b", 2), whole("c", 2)]))
    assert "b" in cores(plan)
    assert "c" in reasons(plan)


def test_a_job_that_names_nodes_has_its_mates_there() -> None:
    mates = [runs("a", "n0"), runs("c", "n1")]
    for name in ("n0", "n1"):
        guest = whole("b", 1, among=(NodeId(name),))
        assert set(cores(planned(at([*mates, guest])))["b"]) == {name}
    assert "b" in reasons(planned(at([*mates, whole("b", 2, among=(NodeId("n0"),))])))


def test_mates_are_neighbours_where_that_is_asked_for() -> None:
    mates = [runs("a", "n0"), runs("c", "n2"), runs("d", "n3", submitted_s=-500)]
    rigid = runs("r", "n1", sharing=CoreSharing.NO)
    seen = at([*mates, rigid, whole("b", 2)], 4)
    assert set(cores(planned(seen))["b"]) == {"n0", "n2"}
    assert set(cores(planned(seen, contiguous=True))["b"]) == {"n2", "n3"}
    apart = at([runs("a", "n0"), rigid, runs("c", "n2"), whole("b", 2)], 3)
    assert "b" in cores(planned(apart))
    assert "b" in reasons(planned(apart, contiguous=True))


def test_a_job_that_would_gain_too_little_waits() -> None:
    """It would end 90 s sooner, nine times its requested time."""
    mate = runs("a", "n0", time_s=200, done=0.5)
    seen = at([mate, whole("b", 1)], 1)
    assert "b" in cores(planned(seen, least_gain=8.9))
    assert "b" in reasons(planned(seen, least_gain=9.1))
    # The minimum gain applies only with `benefit`.
    assert "b" in cores(planned(seen, least_gain=9.1, benefit=False))


def test_unlike_nodes_lend_by_their_kind() -> None:
    nodes: list[NodeView] = [two_sockets("n0"), node("n1", 4)]
    mates = [runs("a", "n0"), runs("c", "n1:0-3")]
    assert "b" in reasons(planned(snapshot(nodes, [*mates, whole("b", 2)], now_s=100)))
    given = cores(planned(snapshot(nodes, [*mates, whole("b", 1)], now_s=100)))["b"]
    assert len(given) == 1


def test_only_news_is_told_of_a_long_queue() -> None:
    running = [runs(f"r{i}", f"n{i}") for i in range(4)]
    queue = [whole(f"w{i}", 1 + i % 4, time_s=5000 + i % 7) for i in range(1000)]
    seen = at([*running, *queue], 4)
    rounds = Rounds(SlowdownDriven().scheduler())
    rounds.tell(seen, seen.jobs, ())
    first = rounds.plan(seen.now_ns)
    assert len(first.waiting) == 1000
    rounds.tell(replace(seen, jobs=()), [*running, whole("new", 4)], ())
    second = rounds.plan(seen.now_ns)
    assert [one.job_id for one in second.waiting] == ["new"]
    assert len(second.assignments) == 4
