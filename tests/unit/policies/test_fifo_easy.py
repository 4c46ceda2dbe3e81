"""FIFO with EASY backfill: order, reservation, and power as another resource."""

from __future__ import annotations

import pytest
from unit.policies.snapshots import (
    W,
    caps_w,
    faults,
    held,
    job,
    node,
    reasons,
    sizes,
    snapshot,
    starts_s,
)

from wattfold.coordinator.core.model.plan import JobView, Plan, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.easy_search import BLOCKED
from wattfold.coordinator.policies.backfill.job_size import size_of
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import Rounds
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import FifoSettings
from wattfold.coordinator.policies.port import Site

EASY = FifoEasy()


def plan(seen: Snapshot, policy: FifoEasy = EASY) -> Plan:
    out = policy.propose(seen, seen.now_ns, 1.0)
    assert faults(out, seen) == []
    return out


def nodes_job(name: str, size: int, time_s: float, at_s: float = 0, **fields: object) -> JobView:
    return job(
        name,
        size,
        size,
        unit=SizeUnit.NODES,
        time_s=time_s,
        submitted_s=at_s,
        **fields,  # type: ignore[arg-type]
    )


def machine(count: int) -> list:  # type: ignore[type-arg]
    return [node(f"n{i}") for i in range(count)]


def busy(name: str, time_s: float, *places: str) -> JobView:
    return nodes_job(name, len(places), time_s, current=held(name, *places), started_s=0)


def test_names() -> None:
    assert (EASY.name, FifoEasy(backfill=False).name) == ("fifo-easy", "fifo")
    assert isinstance(EASY.fallback(), InTurn)


def test_jobs_start_in_order_at_full_power() -> None:
    jobs = [nodes_job("b", 1, 10, at_s=2), nodes_job("a", 2, 10, at_s=1)]
    out = plan(snapshot(machine(3), jobs, now_s=5))
    assert [a.job_id for a in out.assignments] == ["a", "b"]
    assert set(caps_w(out).values()) == {45}


def test_priority_goes_first() -> None:
    jobs = [nodes_job("a", 1, 10), nodes_job("b", 1, 10, at_s=1, priority=2)]
    out = plan(snapshot(machine(1), jobs, now_s=2))
    assert sizes(out) == {"b": 1}


def test_which_end_of_a_range_is_asked_for() -> None:
    seen = snapshot([node("n0", 8)], [job("a", 2, 6, time_s=10)])
    assert sizes(plan(seen)) == {"a": 6}
    assert sizes(plan(seen, FifoEasy(FifoSettings(size="min")))) == {"a": 2}
    assert sizes(plan(snapshot([node("n0")], [job("a", 2, 6)]))) == {"a": 4}


@pytest.mark.parametrize("cores", [4, 8], ids=["counted", "searched"])
def test_a_short_job_is_backfilled_and_a_long_one_is_not(cores: int) -> None:
    nodes = [node("n0"), node("n1"), node("n2", cores)]
    jobs = [busy("r", 100, "n0", "n1"), nodes_job("head", 3, 10)]
    short, long = nodes_job("short", 1, 100, at_s=1), nodes_job("long", 1, 101, at_s=1)
    for view, starts in ((short, True), (long, False)):
        out = plan(snapshot(nodes, [*jobs, view]))
        assert (view.job_id in sizes(out)) is starts
        assert "head" in reasons(out)
    assert reasons(out)["head"] == "first in the queue"
    assert reasons(out)["long"] == "behind the first in the queue"


def test_plain_fifo_backfills_nothing() -> None:
    jobs = [busy("r", 100, "n0"), nodes_job("head", 2, 10), nodes_job("s", 1, 1, at_s=1)]
    assert sizes(plan(snapshot(machine(2), jobs), FifoEasy(backfill=False))) == {"r": 1}


def test_a_long_job_may_use_what_the_first_leaves_over() -> None:
    # At 100 s four nodes are free and the head needs three. One node may therefore be used without
    # a time limit, even if the head could have used any of the nodes that are free now.
    jobs = [
        busy("r", 100, "n2", "n3"),
        busy("s", 900, "n4"),
        nodes_job("head", 3, 10),
        nodes_job("x", 1, 5000, at_s=1),
        nodes_job("y", 1, 5000, at_s=2),
    ]
    assert sizes(plan(snapshot(machine(5), jobs))) == {"r": 2, "s": 1, "x": 1}


def test_jobs_that_end_at_one_instant_end_together() -> None:
    jobs = [
        busy("r", 100, "n0"),
        busy("s", 100, "n1"),
        nodes_job("head", 2, 10),
        nodes_job("x", 1, 5000, at_s=1),
    ]
    assert sizes(plan(snapshot(machine(3), jobs))) == {"r": 1, "s": 1, "x": 1}


def test_power_is_backfilled_like_nodes() -> None:
    # Nodes draw 26 W idle and a job adds 29 W: two jobs run and a third waits for power.
    jobs = [busy("r", 100, "n0"), busy("s", 200, "n1"), nodes_job("head", 1, 50)]
    seen = snapshot(machine(4), [*jobs, nodes_job("x", 1, 90, at_s=1)], budget_w=4 * 26 + 2 * 29)
    out = plan(seen)
    assert sizes(out) == {"r": 1, "s": 1}
    assert starts_s(out)["head"] == 100
    small = job("small", 1, 1, cap_uw=18 * W, time_s=99, submitted_s=1)
    more = snapshot(machine(4), [*jobs, small], budget_w=4 * 26 + 2 * 29 + 1)
    assert "small" in sizes(plan(more))


def test_an_exclusive_job_ends_and_its_node_is_free_but_for_blocked_cores() -> None:
    first = job("r", 1, 1, exclusive=True, current=held("r", "n0:0"), started_s=0, time_s=100)
    head = job("head", 4, 4, time_s=10)
    free = plan(snapshot([node("n0")], [first, head]))
    assert starts_s(free)["head"] == 100
    blocked = plan(snapshot([node("n0", blocked="3")], [first, head]))
    assert (blocked.waiting[0].reason, blocked.waiting[0].never) == (BLOCKED, False)


def test_what_can_never_start_does_not_hold_the_others_up() -> None:
    jobs = [nodes_job("huge", 5, 10), nodes_job("a", 1, 10, at_s=1)]
    out = plan(snapshot(machine(2), jobs))
    assert sizes(out) == {"a": 1}
    assert out.waiting[0].never
    assert reasons(out)["huge"] == (
        "requests 5 nodes at full power, more than the machine or its budget has"
    )


def test_more_power_than_the_budget_is_never_but_a_silent_node_is_not() -> None:
    power = snapshot(machine(2), [nodes_job("a", 2, 10)], budget_w=2 * 26 + 57)
    assert plan(power).waiting[0].never
    reserved = snapshot(machine(1), [nodes_job("a", 1, 10)], budget_w=26 + 30, reserved_w=10)
    out = plan(reserved)
    assert sizes(out) == {}
    assert not out.waiting[0].never


def test_a_late_running_job_is_expected_to_end_at_any_moment() -> None:
    jobs = [busy("r", 10, "n0"), nodes_job("head", 1, 10), nodes_job("x", 1, 1, at_s=1)]
    out = plan(snapshot(machine(1), jobs, now_s=500))
    assert starts_s(out)["head"] == 500


@pytest.mark.parametrize(("fed", "size"), [(0.9, 1), (1, 1), (2, 2), (2.9, 2), (9, 3)])
def test_a_range_gets_the_most_that_the_budget_feeds(fed: float, size: int) -> None:
    """Each node adds 45 - 16 W to its idle power."""
    view = job("a", 1, 3, unit=SizeUnit.NODES)
    nodes = tuple(node(f"n{at}") for at in range(3))
    power_uw = round(fed * (45 - 16) * W)
    site = Site(count=3, spendable_uw=power_uw, most_uw=power_uw, kind=None, nodes=nodes)
    assert size_of(view, site, "max", 45 * W) == size
    assert size_of(view, site, "min", 45 * W) == 1


def test_a_node_that_goes_with_a_job_leaves_the_others_to_those_that_wait() -> None:
    """With the earlier count, the job would be placed on one of the two remaining nodes."""
    rounds = Rounds(EASY.scheduler())
    running, waiting = busy("r", 1000, "n0"), nodes_job("a", 2, 10, at_s=1)
    for gone, started in ((0, {"r"}), (1, {"r", "a"})):
        jobs = [running, waiting] if gone else [running, nodes_job("wide", 3, 10, at_s=1)]
        seen = snapshot(machine(3)[gone:], jobs, now_s=2 + gone)
        rounds.tell(seen, seen.jobs, rounds.unlike(seen.jobs))
        assert {a.job_id for a in rounds.plan(seen.now_ns).assignments} == started
