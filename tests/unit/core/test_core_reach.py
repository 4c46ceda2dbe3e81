"""Jobs with a map over several nodes: the order of commands, and refused plans."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import NODES, S, Stage, job_spec, node_spec, on, running

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.core.rules.invariants import InvariantError, check_invariants

ON, OFF = b"\1\1\1\1", b"\0\0\0\0"


def spec(low: int = 1, high: int = 3, **fields: Any) -> Any:
    return job_spec(low, high, unit=NODES, mode=ResizeMode.MAP, own_launcher=True, **fields)


def stage(*cores: int) -> Stage:
    """Nodes n0, n1, ..., of four cores by default."""
    one = Stage()
    for index, count in enumerate(cores or (4, 4, 4)):
        name = f"n{index}"
        one.register(name)
        one.connect(node_spec(name, cores=count, steps_address="unix:s"))
        one.leased(name)
    return one


def started(one: Stage, *nodes: str, **fields: Any) -> None:
    """Job a, running on these nodes with PEs on all nodes of its map."""
    one.submit("a", spec(**fields))
    one.plan(on("a", *nodes))
    for node in one.job("a").ranks:
        one.launched(node, "a")


def moved(one: Stage, *nodes: str) -> list[act.SetMask]:
    """Plan other nodes for the job and return the masks that are sent."""
    one.need_plan()
    return masks(one.plan(on("a", *nodes)))


def masks(actions: list[act.Action]) -> list[act.SetMask]:
    return [action for action in actions if isinstance(action, act.SetMask)]


def sent(
    node: str, cpus: str, pe_map: bytes = b"", *, resident: bool = False, job: str = "a"
) -> act.SetMask:
    return act.SetMask(
        node_id=NodeId(node),
        job_id=JobId(job),
        cpus=CpuSet.parse(cpus),
        processor_map=pe_map,
        resident=resident,
        request_id="",
        cause="",
    )


def confirm(one: Stage, node: str, **fields: Any) -> list[act.SetMask]:
    """Confirm the last command to an agent."""
    rank = one.job("a").ranks[NodeId(node)]
    assert rank.moving_to is not None
    values = {"cpus": rank.moving_to, "confined": False} | fields
    return masks(one.send(reports.MaskConfirmed(node_id=NodeId(node), job_id=JobId("a"), **values)))


def fail(one: Stage, node: str) -> None:
    one.send(reports.MaskFailed(node_id=NodeId(node), job_id=JobId("a"), reason="no answer"))


def test_it_is_started_on_all_of_its_reach_and_holds_what_the_plan_says() -> None:
    one = stage()
    one.submit("a", spec())
    launches = [a for a in one.plan(on("a", "n1")) if isinstance(a, act.Launch)]
    assert one.job("a").reach == ("n1", "n0", "n2")
    assert [(x.node_id, str(x.cpus), x.resident, x.steps_only) for x in launches] == [
        ("n1", "0-3", False, False),
        ("n0", "3", True, True),
        ("n2", "3", True, True),
    ]
    assert {(x.pes, x.launch_cpus, x.ranks) for x in launches} == {(12, 4, 3)}
    assert launches[0].processor_map == ON + OFF + OFF
    assert [node.cpus for node in launches[0].step_nodes] == [4, 4, 4]
    state = one.core.state
    assert [str(state.occupied(NodeId(name))) for name in ("n0", "n1", "n2")] == ["", "0-3", ""]


def test_a_node_is_given_back_after_its_objects_and_then_after_its_processes() -> None:
    one = stage()
    started(one, "n0", "n1", "n2")
    assert moved(one, "n0", "n2") == [sent("n0", "0-3", ON + OFF + ON)]
    # Not before the program has reported that no object is left there.
    late = confirm(one, "n0", processor_map=ON + OFF + ON, map_applied=False)
    assert late == []
    assert one.job("a").reason == "the program has not applied its processor map yet"
    assert masks(one.after(1)) == [sent("n0", "0-3", ON + OFF + ON)]
    step = confirm(one, "n0", processor_map=ON + OFF + ON, map_applied=True)
    assert step == [sent("n1", "3", resident=True)]
    one.submit("b", job_spec(1, 1, unit=NODES, kind=JobKind.RIGID, mode=ResizeMode.FIXED))
    one.need_plan()
    out = one.plan(on("a", "n0", "n2"), on("b", "n1"))
    assert not [action for action in out if isinstance(action, act.Launch)]
    out = one.send(
        reports.MaskConfirmed(
            node_id=NodeId("n1"), job_id=JobId("a"), cpus=CpuSet(), confined=False, resident=True
        )
    )
    assert [a.job_id for a in out if isinstance(a, act.Launch)] == ["b"]
    assert one.job("a").ranks[NodeId("n1")].resident
    assert one.job("a").state is JobState.RUNNING


def test_a_node_is_taken_cores_first_and_the_map_is_told_once_for_all() -> None:
    one = stage()
    started(one, "n0")
    assert moved(one, "n0", "n1", "n2") == [sent("n1", "0-3"), sent("n2", "0-3")]
    assert confirm(one, "n1") == []
    assert confirm(one, "n2") == [sent("n0", "0-3", ON + ON + ON)]
    assert confirm(one, "n0", processor_map=ON * 3, map_applied=True) == []


def test_a_lost_answer_is_asked_for_again_and_enables_nothing() -> None:
    one = stage()
    started(one, "n0")
    moved(one, "n0", "n1")
    fail(one, "n1")
    # The node may hold the cores: no other job gets them, and no object moves there.
    assert str(one.core.state.occupied(NodeId("n1"))) == "0-3"
    assert masks(one.after(1)) == [sent("n1", "0-3")]
    assert confirm(one, "n1") == [sent("n0", "0-3", ON + ON + OFF)]
    fail(one, "n0")
    # The map in force is unknown: the node is released only after a confirmed map.
    assert moved(one, "n0") == []
    assert masks(one.after(1)) == [sent("n0", "0-3", ON + OFF + OFF)]
    step = confirm(one, "n0", processor_map=ON + OFF + OFF, map_applied=True)
    assert step == [sent("n1", "3", resident=True)]


def test_what_is_not_known_to_be_held_is_given_back_all_the_same() -> None:
    one = stage()
    started(one, "n0")
    moved(one, "n0", "n1")
    fail(one, "n1")
    assert moved(one, "n0") == []
    assert masks(one.after(1)) == [sent("n1", "3", resident=True)]


def test_cores_that_its_threads_do_not_leave_stay_its_own() -> None:
    one = stage()
    started(one, "n0", "n1")
    moved(one, "n0")
    confirm(one, "n0", processor_map=ON + OFF + OFF, map_applied=True)
    confirm(one, "n1", cpus=CpuSet.parse("2"), resident=True)
    assert str(one.core.state.occupied(NodeId("n1"))) == "2"
    assert not one.job("a").ranks[NodeId("n1")].resident
    assert masks(one.after(1)) == [sent("n1", "3", resident=True)]


def test_an_agent_that_comes_back_tells_whether_it_is_resident_and_gets_the_map_again() -> None:
    one = stage()
    started(one, "n0", "n1")
    moved(one, "n0")
    confirm(one, "n0", processor_map=ON + OFF + OFF, map_applied=True)
    # The answer that n1 is vacated is lost with its agent.
    one.silent("n1")
    one.connect(
        node_spec("n1", steps_address="unix:s"), processes=(running("a", "", resident=True),)
    )
    assert one.job("a").ranks[NodeId("n1")].resident
    assert not one.core.state.occupied(NodeId("n1"))
    one.silent("n0")
    out = one.connect(node_spec("n0", steps_address="unix:s"), processes=(running("a", "0-3"),))
    assert masks(out) == [sent("n0", "0-3", ON + OFF + OFF)]


def test_a_node_lost_under_residual_processes_fails_the_job_by_name() -> None:
    one = stage()
    started(one, "n0")
    one.silent("n2")
    one.connect(node_spec("n2", steps_address="unix:s"))
    assert one.job("a").state is JobState.ENDING
    one.process_ended("n0", "a", 143)
    one.process_ended("n1", "a", 0)
    assert one.job("a").state is JobState.LOST
    assert one.job("a").message == (
        "the residual processes on n2 ended before the launcher: its process on n2 "
        "disappeared (was the node restarted?)"
    )


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (("n1",), "the program was started on n0, so the job must keep this node"),
        (("n0", "n3"), "the job has PEs only on n0, n1, not on n3"),
    ],
)
def test_it_keeps_its_first_node_and_stays_within_its_reach(
    nodes: tuple[str, ...], why: str
) -> None:
    one = stage(4, 4, 4, 4)
    started(one, "n0", "n1", high=2)
    assert moved(one, *nodes) == []
    assert one.job("a").reason == f"omitted from the last plan: {why}"


def test_a_reach_has_alike_nodes_that_take_steps() -> None:
    one = stage(4, 2, 4)
    one.register("n3")
    one.connect(node_spec("n3"))
    one.leased("n3")
    started(one, "n0")
    assert one.job("a").reach == ("n0", "n2")
    one.submit("b", spec(2, 2, kind=JobKind.MALLEABLE))
    one.need_plan()
    one.plan(on("a", "n0"), on("b", "n2", "n3"))
    assert "n3 does not accept job steps" in one.job("b").reason


def test_the_reach_of_a_job_with_a_reservation_is_within_it() -> None:
    one = stage(4, 4, 4)
    kept = Reservation(
        name="k",
        nodes=(NodeId("n0"), NodeId("n2")),
        start_ns=0,
        end_ns=900 * S,
        users=("ann",),
    )
    one.send(ev.ReservationMade(reservation=kept))
    started(one, "n0", reservation="k")
    assert one.job("a").reach == ("n0", "n2")


def test_an_ordered_size_is_within_the_reach() -> None:
    one = stage(4, 4)
    started(one, "n0", high=3)
    one.send(ev.JobResizeRequested(job_id=JobId("a"), size=3))
    assert one.job("a").size_asked == 0
    assert one.core.snapshot(one.now_ns).jobs[0].spec.size_max == 2
    one.send(ev.JobResizeRequested(job_id=JobId("a"), size=2))
    assert one.job("a").size_asked == 2


def test_a_state_that_is_resident_where_the_program_started_is_a_defect() -> None:
    one = stage()
    started(one, "n0")
    check_invariants(one.core.state)
    one.job("a").ranks[NodeId("n0")].resident = True
    with pytest.raises(
        InvariantError, match="only residual processes on the node where its program started"
    ):
        check_invariants(one.core.state)
