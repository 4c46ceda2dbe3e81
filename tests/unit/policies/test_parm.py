"""PARM's decisions in single cases. The property tests check the optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import W, caps_w, faults, held, job, node, reasons, sizes, snapshot

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.resources.estimates import estimate

WSE = Parm()


def plan(seen: Snapshot, policy: Parm = WSE) -> Plan:
    out = policy.propose(seen, seen.now_ns, 5.0)
    assert faults(out, seen) == []
    return out


def profile_of(seen: Snapshot) -> PassProfile:
    return estimate(seen.jobs[0], seen.nodes[0].spec.kind).profile


def test_names_and_fallbacks() -> None:
    assert [Parm(version=v).name for v in ParmVersion] == ["parm-wse", "parm-nose", "parm-nomm"]
    second = WSE.fallback()
    assert isinstance(second, Parm)
    assert second.settings.solver == "greedy"
    assert isinstance(second.fallback(), InTurn)


@pytest.mark.parametrize("solver", ["lagrangian", "glpk", "greedy"])
def test_the_plan_names_the_solver_that_made_it(solver: str) -> None:
    policy = Parm(ParmSettings(solver=solver))
    policy.warm_up()  # As in the service: loading a solver is not part of a round.
    out = plan(snapshot([node("n0")], [job("a")]), policy)
    assert (out.solver, sizes(out)) == (solver, {"a": 4})


def test_solvers_agree_on_a_full_machine() -> None:
    jobs = [job(f"j{i}", 1, 4) for i in range(5)]
    seen = snapshot([node("n0"), node("n1")], jobs, budget_w=70)
    ours, reference = (
        plan(seen, Parm(ParmSettings(solver=s, gap=0.0))) for s in ("lagrangian", "glpk")
    )
    assert ours.solver == "lagrangian"
    assert ours.objective == pytest.approx(reference.objective, rel=2e-7)


def test_a_lone_job_gets_everything() -> None:
    out = plan(snapshot([node("n0")], [job("a")]))
    assert sizes(out) == {"a": 4}
    assert caps_w(out) == {"a": 44.75}  # F(2.6 GHz), in steps of 1/8 W.


def test_scarce_power_goes_into_few_watts_for_all() -> None:
    jobs = [job(f"j{i}", 1, 1, unit=SizeUnit.NODES) for i in range(4)]
    nodes = [node(f"n{i}") for i in range(4)]
    out = plan(snapshot(nodes, jobs, budget_w=4 * (10 + 16) + 20))
    assert len(sizes(out)) == 4
    assert sum(caps_w(out).values()) - 4 * 16 <= 20


@pytest.mark.parametrize(
    ("variant", "size"), [(ParmVersion.WSE, 4), (ParmVersion.NOSE, 2), (ParmVersion.NOMM, 2)]
)
def test_who_may_change_a_running_job(variant: ParmVersion, size: int) -> None:
    view = job("a", current=held("a", "n0:0-1"), started_s=0)
    out = plan(snapshot([node("n0")], [view], now_s=1), Parm(version=variant))
    assert sizes(out) == {"a": size}


@pytest.mark.parametrize(
    ("variant", "size"), [(ParmVersion.WSE, 4), (ParmVersion.NOSE, 4), (ParmVersion.NOMM, 1)]
)
def test_who_may_choose_the_size_of_a_new_job(variant: ParmVersion, size: int) -> None:
    assert sizes(plan(snapshot([node("n0")], [job("a")]), Parm(version=variant))) == {"a": size}


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": JobKind.MOLDABLE},
        {"mode": ResizeMode.FIXED},
        {"movable": False},
        {"resized_s": 600},
    ],
)
def test_a_job_that_may_not_change_keeps_its_size(fields: dict[str, object]) -> None:
    view = job("a", current=held("a", "n0:0-1"), started_s=0, **fields)  # type: ignore[arg-type]
    assert sizes(plan(snapshot([node("n0")], [view], now_s=1000))) == {"a": 2}


def test_a_resized_job_is_locked_for_a_while_and_then_looked_at_again() -> None:
    view = job("a", current=held("a", "n0:0-1"), started_s=0, resized_s=600)
    locked = plan(snapshot([node("n0")], [view], now_s=1099.9))
    assert (sizes(locked), locked.revisit_ns) == ({"a": 2}, 1100 * 10**9)
    free = plan(snapshot([node("n0")], [view], now_s=1100))
    # It is resized in this round.
    assert (sizes(free), free.revisit_ns) == ({"a": 4}, 1600 * 10**9)


@pytest.mark.parametrize(("cost_s", "size"), [(0.1, 4), (500.0, 2)])
def test_a_change_that_costs_more_than_it_gains_is_not_made(cost_s: float, size: int) -> None:
    one = job("a", current=held("a", "n0:0-1"), started_s=0, time_s=100, mode=ResizeMode.MAP)
    seen = snapshot([node("n0")], [replace(one, resize_ns=round(cost_s * 1e9))], now_s=10)
    assert sizes(plan(seen)) == {"a": size}


def test_a_rigid_job_has_one_size() -> None:
    out = plan(snapshot([node("n0")], [job("a", 3, 3, kind=JobKind.RIGID)]))
    assert sizes(out) == {"a": 3}


def test_a_cap_of_the_user_is_kept() -> None:
    out = plan(snapshot([node("n0")], [job("a", cap_uw=22 * W)]))
    assert caps_w(out) == {"a": 22}


def test_priority_decides_who_starts() -> None:
    one = [job("a", 4, 4), job("b", 4, 4, priority=50)]
    assert sizes(plan(snapshot([node("n0")], one))) == {"b": 4}
    assert sizes(plan(snapshot([node("n0")], one[::-1]))) == {"b": 4}


def test_waiting_adds_weight() -> None:
    jobs = [job("new", 4, 4, submitted_s=5000), job("old", 4, 4)]
    assert sizes(plan(snapshot([node("n0")], jobs, now_s=5000))) == {"old": 4}


def test_weights_are_those_of_equation_8() -> None:
    seen = snapshot(
        [node("n0")], [job("a", 2, 4, time_s=100, submitted_s=40, priority=3)], now_s=60
    )
    menu = Parm(ParmSettings(alpha=0.5)).menus(seen, seen.now_ns)[0]
    least_cap_w = min(o.cap_uw for o in menu.options) / W
    remaining_s = profile_of(seen).time_s(2, least_cap_w)
    assert menu.weight == pytest.approx(3 * (remaining_s + 20) ** 0.5)
    slowest = min(menu.options, key=lambda o: o.speedup)
    assert slowest.speedup == pytest.approx(1)
    assert (slowest.size, slowest.cap_uw / W) == (2, least_cap_w)


def test_what_is_done_takes_weight_away() -> None:
    half = job("a", current=held("a", "n0:0-3"), started_s=0, done=0.5, time_s=100)
    seen = snapshot([node("n0")], [half])
    menu = Parm(ParmSettings(alpha=1.0)).menus(seen, 0)[0]
    levels = min(o.cap_uw for o in menu.options) / W
    assert menu.weight == pytest.approx(0.5 * profile_of(seen).time_s(1, levels))


def test_a_job_being_started_keeps_its_cores_and_its_power() -> None:
    busy = job("a", current=held("a", "n0:0-1"), movable=False)
    out = plan(snapshot([node("n0")], [busy, job("b")]))
    assert sizes(out) == {"a": 2, "b": 2}
    tight = snapshot([node("n0")], [busy, job("b", 2, 2)], budget_w=26 + 14.5 + 1)
    assert sizes(plan(tight)) == {"a": 2, "b": 2}
    assert caps_w(plan(tight))["b"] <= 18


def test_a_job_on_a_node_out_of_reach_is_left_as_it_is() -> None:
    away = job("a", current=held("a", "gone:0-1"), movable=False)
    out = plan(snapshot([node("n0")], [away, job("b")]))
    assert sizes(out) == {"a": 2, "b": 4}


def test_an_exclusive_job_takes_the_node() -> None:
    jobs = [job("a", 2, 2, exclusive=True, priority=100), job("b", 1, 1)]
    out = plan(snapshot([node("n0"), node("n1", 1)], jobs))
    places = {a.job_id: a.shares[0].node_id for a in out.assignments}
    assert places == {"a": "n0", "b": "n1"}


def test_an_exclusive_job_does_not_grow_into_blocked_cores() -> None:
    view = job("a", current=held("a", "n0:0-1"), started_s=0, exclusive=True)
    out = plan(snapshot([node("n0", blocked="3")], [view], now_s=1))
    assert str(out.assignments[0].shares[0].cpus) in ("0-1", "0-2")


def test_a_job_placed_smaller_than_chosen_expects_the_time_of_its_size() -> None:
    # Eight cores are free, but only four of them are on one node, and the job may have eight.
    seen = snapshot([node("n0", 8, blocked="4-7"), node("n1", 8, blocked="0-3")], [job("a", 1, 8)])
    out = plan(seen)
    assert sizes(out) == {"a": 4}
    expected = profile_of(seen).time_s(4, out.assignments[0].cap_uw / W)
    assert out.assignments[0].expected_total_s == pytest.approx(expected)


def test_too_large_a_job_never_starts() -> None:
    out = plan(snapshot([node("n0")], [job("a", 5, 6)]))
    assert out.waiting[0].never
    assert reasons(out) == {"a": "requests 5 cores, more than the reachable nodes have"}


def test_a_full_machine_is_no_never() -> None:
    busy = job("a", 4, 4, current=held("a", "n0:0-3"), started_s=0)
    out = plan(snapshot([node("n0")], [busy, job("b", 4, 4)], now_s=1))
    assert not out.waiting[0].never
    assert reasons(out)["b"] == "jobs that run or gain more speed use the 4 cores that it needs"


@pytest.mark.parametrize("policy", [WSE, Parm(ParmSettings(solver="greedy")), FifoEasy()])
def test_without_nodes_what_runs_goes_on_and_the_others_wait(policy: Policy) -> None:
    away = job("b", current=held("b", "gone:0-1"), movable=False)
    seen = snapshot([], [job("a"), away])
    out = policy.propose(seen, seen.now_ns, 1.0)
    assert sizes(out) == {"b": 2}
    assert reasons(out) == {"a": "no node is reachable"}


def test_a_budget_below_what_runs_lifts_locks_first() -> None:
    # Each of its cores takes at least 1.6 W above the floor.
    busy = job("a", current=held("a", "n0:0-3"), started_s=0, resized_s=0.5)
    seen = snapshot([node("n0", floor_w=9)], [busy], budget_w=19 + 5, now_s=1)
    out = plan(seen)
    assert out.outcome == "optimal"
    assert sizes(out) == {"a": 3}


def test_a_budget_below_what_runs_leaves_it_the_least_power() -> None:
    jobs = [
        job("a", 2, 2, current=held("a", "n0:0-1"), started_s=0),
        job("b", 1, 2, current=held("b", "n0:2-3"), started_s=0),
        job("c"),
    ]
    seen = snapshot([node("n0", floor_w=9)], jobs, budget_w=19 + 2, now_s=1)
    out = WSE.propose(seen, seen.now_ns, 5.0)
    assert out.outcome == "infeasible"
    assert (sizes(out), caps_w(out)) == ({"a": 2, "b": 1}, {"a": 15.375, "b": 15.375})
    assert "running jobs use the whole budget" in reasons(out)["c"]


def test_what_runs_stays_as_it_is_where_cores_are_short() -> None:
    busy = job("a", 4, 4, current=held("a", "n0:0-3"), started_s=0)
    malleable = job("b", 1, 4, current=held("b", "n1:0-3"), started_s=0)
    seen = snapshot([node("n0", blocked="3"), node("n1")], [busy, malleable, job("c")], now_s=1)
    out = WSE.propose(seen, seen.now_ns, 5.0)
    assert out.outcome == "infeasible"
    assert set(out.assignments) == {busy.current, malleable.current}


def test_a_wish_bounds_the_size() -> None:
    kind = {"kind": JobKind.EVOLVING}
    assert sizes(plan(snapshot([node("n0")], [job("a", wanted=2, **kind)]))) == {"a": 2}
    running = {"current": held("a", "n0:0-3"), "started_s": 0, **kind}
    # It releases unrequested cores, even soon after a resize that preceded the request.
    seen = snapshot([node("n0")], [job("a", wanted=1, wanted_s=95, resized_s=90, **running)])
    assert sizes(plan(seen)) == {"a": 1}
    # A request that preceded the resize does not shorten the pause after the resize.
    seen = snapshot([node("n0")], [job("a", wanted=1, wanted_s=80, resized_s=90, **running)])
    assert sizes(plan(seen)) == {"a": 4}


def test_no_task_is_left_without_a_core() -> None:
    jobs = [job(f"j{i}", 1, 4, tasks_per_node=2) for i in range(3)]
    out = sizes(plan(snapshot([node("n0")], jobs)))
    assert out
    assert min(out.values()) >= 2


LARGE = {"cores": 8, "max_w": 90}


def restartable(*places: str, high: int = 5, **fields: Any) -> JobView:
    """A running job on whole nodes that can be restarted at another size."""
    cores = {"l": CpuSet.of(range(8)), "s": CpuSet.of(range(4))}
    shares = tuple(Share(node_id=NodeId(name), cpus=cores[name[0]]) for name in places)
    current = replace(held("a", *places), shares=shares)
    mode, unit = ResizeMode.RESTART, SizeUnit.NODES
    view = job("a", 1, high, current=current, started_s=0, mode=mode, unit=unit, **fields)
    return replace(view, nodes_may_change=True)


def on(out: Plan, name: str = "a") -> list[str]:
    (given,) = [one for one in out.assignments if one.job_id == name]
    return [share.node_id for share in given.shares]


@pytest.mark.parametrize(
    ("first", "all_of_its_kind"), [("s1", ["s1", "s0", "s2"]), ("l1", ["l1", "l0"])]
)
def test_over_unlike_nodes_a_job_grows_among_those_of_its_kind(
    first: str, all_of_its_kind: list[str]
) -> None:
    nodes = [*(node(f"s{i}") for i in range(3)), *(node(f"l{i}", **LARGE) for i in range(2))]
    assert on(plan(snapshot(nodes, [restartable(first)], now_s=600))) == all_of_its_kind


def test_over_unlike_nodes_a_job_gives_nodes_up() -> None:
    nodes = [*(node(f"s{i}") for i in range(3)), node("l0", **LARGE)]
    beside = job("b", 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID, priority=100.0)
    taken = job("c", 1, 1, unit=SizeUnit.NODES, started_s=0)
    taken = replace(taken, current=replace(held("c", "l0:0-7"), size=1))
    out = plan(snapshot(nodes, [restartable("s2", "s0", "s1"), taken, beside], now_s=600))
    assert on(out) == ["s2", "s0"]
    assert on(out, "b") == ["s1"]


def test_a_job_on_nodes_of_several_kinds_stays_as_it_is() -> None:
    nodes = [*(node(f"s{i}") for i in range(3)), *(node(f"l{i}", **LARGE) for i in range(2))]
    assert on(plan(snapshot(nodes, [restartable("s0", "l1")], now_s=600))) == ["s0", "l1"]
