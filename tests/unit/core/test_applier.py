"""Every reason for which the applier rejects a part of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import NODES, Stage, caps, job_spec, on, running

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.applier import Accepted, accept
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Plan

BOTH = CoreSharing.BOTH


def decide(stage: Stage, *assignments: Assignment) -> Accepted:
    return accept(Plan(assignments=assignments), stage.core.state, stage.now_ns)


def reason(stage: Stage, *assignments: Assignment) -> str:
    """Reason for which the last of these assignments is refused; empty if it is accepted."""
    refusals = {r.job_id: r.reason for r in decide(stage, *assignments).refusals}
    return refusals.get(assignments[-1].job_id, "")


def stage_with(**fields: Any) -> Stage:
    stage = Stage(200)
    stage.up("n0", "n1")
    stage.submit("a", job_spec(**fields))
    return stage


def test_what_holds_is_taken() -> None:
    stage = stage_with()
    accepted = decide(stage, on("a", "n0:0-1"))
    assert accepted == Accepted(changes=(), starts=(on("a", "n0:0-1"),), refusals=())


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        (on("gone", "n0:0"), "the job has ended or is ending"),
        (on("a", "n0:0-3", "n1:0-3"), "size 8 is outside 1..4"),
        (replace(on("a", "n0:0"), size=2), "size 2 does not match the assigned 1 cores"),
        (on("a", "n0:0", "n1:0"), "a job sized in cores must be on exactly one node"),
        (on("a", "n9:0"), "node n9 is unknown or listed twice"),
        (on("a", "n0:3-4"), "cores 3-4 are not all part of node n0 (cores 0-3)"),
    ],
)
def test_an_assignment_that_cannot_be(assignment: Assignment, why: str) -> None:
    assert reason(stage_with(), assignment) == why


def test_a_node_named_twice_or_without_cores() -> None:
    stage = stage_with(unit=NODES)
    some = Share(node_id=NodeId("n0"), cpus=CpuSet.of([0]))
    twice = Assignment(job_id=JobId("a"), size=2, cap_uw=1, shares=(some, some))
    assert reason(stage, twice) == "node n0 is unknown or listed twice"
    empty = replace(twice, size=1, shares=(replace(some, cpus=CpuSet()),))
    assert reason(stage, empty) == "cores  are not all part of node n0 (cores 0-3)"


def test_a_job_that_is_held_or_has_ended() -> None:
    stage = stage_with()
    stage.submit("b", held=True)
    assert reason(stage, on("b", "n0:0")) == "the job has ended or is ending"
    stage.cancel("a")
    assert reason(stage, on("a", "n0:0")) == "the job has ended or is ending"


def test_a_node_out_of_reach() -> None:
    stage = stage_with()
    stage.silent("n0")
    assert reason(stage, on("a", "n0:0")) == "node n0 is silent"


def test_a_running_job_may_keep_its_cores_on_a_node_out_of_reach() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    stage.silent("n0")
    assert reason(stage, on("a", "n0:0-1", cap_w=20)) == ""
    assert reason(stage, on("a", "n0:0")) == "node n0 is silent"


def test_cores_of_a_foreign_process() -> None:
    stage = Stage()
    stage.register("n0")
    stage.connect("n0", 10, (running("x", "0-1"),))
    stage.submit("a")
    why = "cores 1 are in use by processes of earlier attempts or of another journal"
    assert reason(stage, on("a", "n0:1-2")) == why


def test_what_a_running_job_may_not() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    stage.run_job("rigid", "n0:0-1", kind=JobKind.MOLDABLE)
    stage.run_job("a", "n0:2-3")
    assert reason(stage, on("rigid", "n0:0")) == (
        "a moldable job in mode mask keeps its cores while it runs"
    )
    assert reason(stage, on("a", "n1:2-3")) == "a running job stays on its nodes"
    stage.cancel("a")
    assert "is ending" in reason(stage, on("a", "n0:2-3"))


def test_a_job_that_is_being_started_keeps_its_place() -> None:
    stage = stage_with()
    stage.plan(on("a", "n0:0-1"))
    assert stage.job("a").state is JobState.STARTING
    assert reason(stage, on("a", "n0:0-2")) == "the job is starting"
    assert reason(stage, on("a", "n0:0-1", cap_w=20)) == ""


def test_part_of_a_whole_node_is_for_jobs_that_share_it() -> None:
    stage = stage_with(unit=NODES, high=2)
    assert reason(stage, on("a", "n0")) == ""
    part = replace(on("a", "n0:0-1"), size=1)
    assert reason(stage, part) == "cores 0-1 are not the whole node n0, which the job requires"
    stage.submit("b", job_spec(unit=NODES, high=2, sharing=BOTH, tasks_per_node=2))
    two = replace(on("b", "n0:0-1", "n1:2-3"), size=2)
    assert reason(stage, two) == ""
    one = replace(on("b", "n0:0"), size=1)
    assert reason(stage, one) == "1 cores of n0 are too few for 2 tasks"
    assert reason(stage, on("a", "n0"), two) == "cores 0-1 of n0 are assigned to another job"


def test_two_jobs_on_a_node_of_which_one_asked_for_all_of_it() -> None:
    """The guest starts once the mate has released its cores; the charge is the sum."""
    stage = Stage(1000)
    stage.up("n0", "n1")
    both = {"unit": NODES, "low": 2, "high": 2, "sharing": BOTH}
    stage.submit("mate", job_spec(**both))
    stage.plan(on("mate", "n0", "n1"))
    for name in ("n0", "n1"):
        stage.launched(name, "mate")
    stage.submit("guest", job_spec(**both))
    shrunk = replace(on("mate", "n0:0-1", "n1:0-1"), size=2)
    guest = replace(on("guest", "n0:2-3", "n1:2-3", cap_w=30), size=2)
    did = stage.plan(shrunk, guest)
    assert not any(isinstance(action, act.Launch) for action in did)
    stage.mask_is("n0", "mate", "0-1")
    assert stage.job("guest").ranks == {}, "one node is not enough"
    did = stage.mask_is("n1", "mate", "0-1")
    starts = [action for action in did if isinstance(action, act.Launch)]
    assert [(one.node_id, str(one.cpus), one.launch_cpus) for one in starts] == [
        ("n0", "2-3", 4),
        ("n1", "2-3", 4),
    ]
    for name in ("n0", "n1"):
        spec = stage.core.state.nodes[NodeId(name)].spec
        assert spec is not None
        # Half at 50 W and half at 30 W, over a floor of 10 W.
        assert set(stage.core.state.cap_sums.caps(spec).values()) == {40_000_000}


def test_power_that_is_not_left() -> None:
    stage = Stage(60)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-1", cap_w=30)
    stage.submit("b")
    assert reason(stage, on("b", "n1:0-3", cap_w=20)) == ""
    assert reason(stage, on("b", "n1:0-3", cap_w=21)) == (
        "needs 11.00 W above the floors; 10.00 W are available"
    )


def test_power_that_a_change_frees_counts() -> None:
    stage = Stage(60)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-1", cap_w=30)
    stage.submit("b")
    assert reason(stage, on("a", "n0:0-1", cap_w=20), on("b", "n1:0-3", cap_w=25)) == ""


def test_a_job_on_a_silent_node_is_charged_once() -> None:
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=40)
    stage.submit("b")
    stage.silent("n0")
    left_w = stage.core.snapshot(stage.now_ns).spendable_uw / 1e6
    assert left_w == 100 - 50 - 20
    assert reason(stage, on("b", "n1:0-3", cap_w=40)) == ""
    assert reason(stage, on("b", "n1:0-3", cap_w=41)) != ""


def test_a_job_on_its_way_out_is_charged_once() -> None:
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=40)
    stage.submit("b")
    stage.cancel("a")
    assert stage.core.snapshot(stage.now_ns).spendable_uw == 30_000_000
    assert reason(stage, on("b", "n1:0-3", cap_w=40)) == ""
    assert reason(stage, on("b", "n1:0-3", cap_w=40.2)) != ""


def test_cores_given_twice() -> None:
    stage = stage_with()
    stage.submit("b")
    accepted = decide(stage, on("a", "n0:0-1"), on("b", "n0:1-2"))
    assert [a.job_id for a in accepted.starts] == ["a"]
    assert accepted.refusals[0].reason == "cores 1 of n0 are assigned to another job"


def test_the_node_of_an_exclusive_job_is_given_once() -> None:
    stage = stage_with(exclusive=True)
    stage.submit("b")
    assert reason(stage, on("a", "n0:0"), on("b", "n0:3")) == (
        "cores 3 of n0 are assigned to another job"
    )
    assert reason(stage, on("b", "n0:3"), on("a", "n0:0")) == (
        "cores 3 of n0 are assigned to another job"
    )


def test_a_change_left_out_takes_those_with_it_that_need_its_cores() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0")
    stage.run_job("b", "n0:1")
    stage.run_job("c", "n0:2", kind=JobKind.MOLDABLE)
    # b would move from core 1 to core 2, but c stays on core 2, so core 1 is not free for a.
    accepted = decide(stage, on("a", "n0:0-1"), on("b", "n0:2"))
    assert accepted.changes == ()
    assert {r.job_id: r.reason for r in accepted.refusals} == {
        "a": "cores 1 of n0 are assigned to another job",
        "b": "cores 2 of n0 are assigned to another job",
    }


def test_a_refusal_is_told_and_tried_again() -> None:
    stage = stage_with()
    stage.plan(on("a", "n0:3-4"))
    assert stage.job("a").reason == (
        "omitted from the last plan: cores 3-4 are not all part of node n0 (cores 0-3)"
    )
    assert [type(action).__name__ for action in stage.after(1)] == ["Solve"]


def test_a_new_level_of_a_running_job_is_no_resize() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.need_plan()
    assert stage.plan(on("a", "n0:0-3", cap_w=20)) == [caps("n0", 20)]
    assert (stage.job("a").resizes, stage.job("a").resized_ns) == (0, -1)


def test_a_job_is_on_the_nodes_it_names_alone() -> None:
    stage = stage_with(among=(NodeId("n1"),))
    assert reason(stage, on("a", "n0:0")) == "node n0 is not in the --among list of the job"
    assert not reason(stage, on("a", "n1:0"))
