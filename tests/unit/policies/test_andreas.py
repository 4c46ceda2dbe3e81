"""ANDREAS: configurations, preemption, levels, and jobs that stay unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import S, W, faults, job, reasons, sizes, snapshot
from unit.policies.training_jobs import V100, gpu_node, runs, training

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.plan import Plan, Snapshot
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import Value
from wattfold.coordinator.policies.training.gpu_nodes import Draws, GpuNodes

BOTH = {("V100", 1): 1000.0, ("V100", 2): 600.0, ("T4", 1): 3000.0}


def planned(seen: Snapshot, policy: str = "andreas", **settings: Value) -> Plan:
    entry = registry.find(policy)
    assert entry is not None
    plan = entry.service(settings).propose(seen, seen.now_ns, 1.0)
    assert faults(plan, seen) == []
    return plan


def places(plan: Plan) -> dict[str, tuple[str, int]]:
    return {a.job_id: (a.shares[0].node_id, len(a.shares[0].gpus)) for a in plan.assignments}


SITE = [gpu_node("v0"), gpu_node("t0", "T4", 1, tdp_w=70)]


def test_the_cheapest_configuration_that_is_in_time_is_taken() -> None:
    relaxed = planned(snapshot(SITE, [training("a", BOTH, due_s=9000)]), haste=0.0)
    assert places(relaxed) == {"a": ("t0", 1)}
    pressing = planned(snapshot(SITE, [training("a", BOTH, due_s=1500)]), haste=0.0)
    assert places(pressing) == {"a": ("v0", 1)}
    late = planned(snapshot(SITE, [training("a", BOTH, due_s=100)]), haste=0.0)
    assert places(late) == {"a": ("v0", 2)}


def test_one_that_is_pressed_has_another_one_pre_empted() -> None:
    only = [gpu_node("v0", gpus=1)]
    patient = runs(training("p", BOTH, due_s=90_000), "v0", ("0",), total_s=1000)
    urgent = training("u", BOTH, due_s=1100, submitted_s=50)
    plan = planned(snapshot(only, [patient, urgent], now_s=60))
    assert [(one.job_id, one.for_job) for one in plan.preemptions] == [("p", "")]
    assert sizes(plan) == {"p": 1}, "it runs until it has gone"
    kept = runs(training("p", BOTH, due_s=90_000), "v0", ("0",), total_s=1000, preemptable=False)
    plan = planned(snapshot(only, [kept, urgent], now_s=60))
    assert plan.preemptions == ()
    assert plan.revisit_ns == (60 + 300) * S


def test_nobody_is_pre_empted_in_the_instant_of_its_start() -> None:
    only = [gpu_node("v0", gpus=1)]
    new = runs(training("p", BOTH, due_s=90_000), "v0", ("0",), total_s=1000, started_s=60)
    urgent = training("u", BOTH, due_s=1100, submitted_s=50)
    assert planned(snapshot(only, [new, urgent], now_s=60)).preemptions == ()


def test_the_baselines_go_by_their_order_and_pre_empt_nobody() -> None:
    only = [gpu_node("v0", gpus=1)]
    first = training("f", BOTH, due_s=9000)
    due = training("d", BOTH, due_s=1100, submitted_s=1)
    heavy = training("w", BOTH, due_s=5000, submitted_s=2, weight=9.0)
    seen = snapshot(only, [first, due, heavy], now_s=3)
    assert set(sizes(planned(seen, "edf"))) == {"d"}
    assert set(sizes(planned(seen, "priority"))) == {"w"}
    assert set(sizes(planned(seen, "priority", order="submission"))) == {"f"}
    held = runs(first, "v0", ("0",), total_s=1000)
    plan = planned(snapshot(only, [held, due], now_s=3), "edf")
    assert plan.preemptions == ()
    assert set(reasons(plan)) == {"d"}


def test_levels_of_gpus_save_energy_where_there_is_time_and_stay_above_half() -> None:
    only = [gpu_node("v0", gpus=1)]
    relaxed = training("a", BOTH, due_s=9000, curve=V100)
    assert planned(snapshot(only, [relaxed])).assignments[0].levels.gpu_uw == 0
    (given,) = planned(snapshot(only, [relaxed]), gpu_levels=5).assignments
    assert 125 * W <= given.levels.gpu_uw < 250 * W
    assert given.expected_total_s > 1000
    pressing = training("a", BOTH, due_s=1050, curve=V100)
    (given,) = planned(snapshot(only, [pressing]), gpu_levels=5).assignments
    assert given.expected_total_s < 1050


def test_other_jobs_run_beside_training_jobs() -> None:
    site = [gpu_node("v0"), gpu_node("v1")]
    cores = job("c", 8, 8)
    gpus = job("g", 1, 1, gpus=1, memory_bytes=0)
    plan = planned(snapshot(site, [training("a", BOTH, due_s=5000), cores, gpus]), haste=0.0)
    assert set(sizes(plan)) == {"a", "c", "g"}


def test_a_job_is_not_put_where_others_are_leaving_before_they_have() -> None:
    view = gpu_node("v0", gpus=1, blocked="0")
    seen = snapshot([view], [training("a", BOTH, due_s=5000)])
    assert set(sizes(planned(seen))) == {"a"}


def test_two_jobs_share_a_node_where_energy_is_that_of_nodes() -> None:
    site = [gpu_node("v0"), gpu_node("v1")]
    alone = {("V100", 1): 1000.0}
    jobs = [training("a", alone, due_s=9000), training("b", alone, due_s=9000)]
    assert set(places(planned(snapshot(site, jobs))).values()) == {("v0", 1)}
    # The joint energy cost favours one host; in the paper's view each job pays for a host of its
    # own.
    costs = {"haste": 0.0, "passes": 1, "attempts": 1000}
    assert len(set(places(planned(snapshot(site, jobs), **costs)).values())) == 1


def test_haste_takes_more_gpus_where_there_would_be_time() -> None:
    only = [gpu_node("v0")]
    relaxed = training("a", BOTH, due_s=9000)
    assert places(planned(snapshot(only, [relaxed]), haste=0.0)) == {"a": ("v0", 1)}
    assert places(planned(snapshot(only, [relaxed]), haste=1.0)) == {"a": ("v0", 2)}


def test_one_that_may_only_be_where_nothing_is_known_of_it_runs_as_others_do() -> None:
    known = training("a", {("V100", 1): 1000.0}, among=(NodeId("t0"),))
    assert places(planned(snapshot(SITE, [known]))) == {"a": ("t0", 1)}


def test_a_baseline_may_wait_for_what_costs_less_later() -> None:
    holds = runs(training("h", BOTH, due_s=9000), "v0", ("0", "1"), total_s=600, preemptable=False)
    holds = replace(holds, done=0.5)
    late = training("l", BOTH, due_s=1500, submitted_s=250)
    seen = snapshot(SITE, [holds, late], now_s=300)
    assert places(planned(seen, "edf"))["l"] == ("t0", 1), "it takes what is free"
    plan = planned(seen, "edf", choice="awaited")
    assert set(sizes(plan)) == {"h"}
    assert "a later start costs less" in reasons(plan)["l"]
    patient = training("l", BOTH, due_s=20_000, submitted_s=250)
    plan = planned(snapshot(SITE, [holds, patient], now_s=300), "edf", choice="awaited")
    assert places(plan)["l"] == ("t0", 1), "it is in time there, and costs less"


def test_jobs_that_ask_for_the_same_have_one_menu() -> None:
    ground = GpuNodes(SITE, (), Draws())
    first, second = training("a", BOTH, due_s=10), training("b", BOTH, due_s=99, weight=3.0)
    assert ground.menu(first) is ground.menu(second)
    other = training("c", BOTH | {("T4", 1): 2999.0})
    assert ground.menu(other) != ground.menu(first)


def test_a_start_from_a_snapshot_ends_before_a_window_with_what_the_start_takes() -> None:
    """350 s are free: 300 s of work remain, and the restart takes 60 s."""
    for closes_s, placed in ((350.0, set()), (370.0, {"a"})):
        window = Reservation(
            name="r",
            nodes=(NodeId("v0"),),
            start_ns=round(closes_s * S),
            end_ns=round(2 * closes_s * S),
            maintenance=True,
        )
        view = training("a", {("V100", 1): 1000.0}, done=0.7)
        seen = replace(snapshot([gpu_node("v0", gpus=1)], [view]), reservations=(window,))
        assert set(sizes(planned(seen, restart_s=60.0))) == placed


def test_only_the_floor_of_gpus_is_a_last_resort() -> None:
    """Range of 100 to 250 W: the search considers levels from half of it."""
    view = training("a", {("V100", 1): 1000.0}, curve=V100)
    menu = GpuNodes([gpu_node("v0", gpus=1)], (), Draws(levels=3)).menu(view)
    assert [(one.level_uw / W, one.last) for one in menu] == [
        (0, False),
        (pytest.approx(187.5), False),
        (125, False),
        (100, True),
    ]
