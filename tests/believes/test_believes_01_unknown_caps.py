"""What a coordinator that takes over charges to nodes, and whose processes it takes for its own."""

from __future__ import annotations

from unit.core.stage import (
    BASE_W,
    FLOOR_W,
    LEASE_NS,
    MAX_W,
    PACKAGE,
    Stage,
    W,
    caps,
    ended,
    forget,
    on,
    running,
)

from wattfold.contract.command_digest import command_digest
from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.node import NodeState
from wattfold.coordinator.core.rules.nodes.leave import lasting_uw
from wattfold.coordinator.core.rules.power.excess import excess_cause

OTHER = command_digest(("another",), "", "")


def taken_over(budget_w: float) -> Stage:
    """Two nodes at their floors in the journal of a copy, whose original has run since."""
    stage = Stage(budget_w=budget_w)
    stage.up("n0", "n1")
    stage.send(
        ev.JournalRestored(epoch=Epoch(5), submissions=9, because="taken", caps_unknown=True)
    )
    stage.start(epoch=6)
    return stage


def committed_w(stage: Stage) -> float:
    return stage.core.state.ledger.committed_uw / W


def charge_w(stage: Stage, node: str) -> float:
    return stage.core.state.ledger.accounts[NodeId(node)].charge_uw / W


def test_all_nodes_count_with_their_most_until_they_are_read() -> None:
    stage = taken_over(2 * (BASE_W + FLOOR_W) + MAX_W - FLOOR_W)
    assert committed_w(stage) == 2 * (BASE_W + MAX_W)
    stage.connect("n0")
    stage.leased("n0")
    stage.submit("10")
    stage.need_plan()
    # n1 may hold its maximum by the word of the other coordinator: there is no room yet.
    stage.plan(on("10", "n0:0-3"))
    stage.after(3)
    assert stage.core.state.jobs[JobId("10")].state is JobState.PENDING
    assert stage.core.state.ledger.breaches == 0
    stage.connect("n1")
    stage.leased("n1")
    stage.after(2)
    stage.need_plan()
    stage.plan(on("10", "n0:0-3"))
    assert caps("n0", MAX_W) in stage.launched("n0", "10")


def test_a_node_that_does_not_answer_counts_with_its_most_until_it_does() -> None:
    """Its lease may be of a coordinator that still runs, and it may have been ordered to leave."""
    stage = taken_over(2 * (BASE_W + MAX_W))
    stage.connect("n0")
    node = stage.core.state.nodes[NodeId("n1")]
    assert node.lease_until_ns >= stage.now_ns + LEASE_NS
    stage.now_ns = node.lease_until_ns
    stage.after(0)
    stage.after(60)
    assert node.state is NodeState.DOWN
    assert "until it answers" in node.message
    assert charge_w(stage, "n1") == BASE_W + MAX_W
    assert "n1" in excess_cause(stage.core.state)
    # A restart knows it too, and so does the budget: no lease will make room for it.
    stage.start(epoch=7)
    stage.after(60)
    assert charge_w(stage, "n1") == BASE_W + MAX_W
    assert lasting_uw(stage.core.state) >= (MAX_W - FLOOR_W) * W
    stage.connect("n1")
    stage.after(2)
    assert charge_w(stage, "n1") == BASE_W + FLOOR_W
    stage.after(60)
    assert lasting_uw(stage.core.state) == 0


def test_a_node_that_is_off_and_removed_counts_no_more() -> None:
    stage = taken_over(1000)
    stage.connect("n0")
    stage.after(60)
    stage.send(ev.NodeOrdered(node_id=NodeId("n1"), order=ev.NodeOrder.FORGET_UNPOWERED))
    assert NodeId("n1") not in stage.core.state.ledger.accounts


def test_original_limits_above_the_highest_cap_count() -> None:
    stage = Stage(budget_w=1000)
    stage.up("n0")
    stage.core.state.nodes[NodeId("n0")].original_uw = {PACKAGE: 2 * MAX_W * W}
    restored = ev.JournalRestored(epoch=Epoch(5), submissions=9, because="x", caps_unknown=True)
    stage.send(restored)
    stage.start(epoch=6)
    assert charge_w(stage, "n0") == BASE_W + 2 * MAX_W


def test_a_running_process_with_another_command_is_not_the_job() -> None:
    stage = taken_over(1000)
    stage.submit("7")
    stage.core.state.jobs[JobId("7")].epoch = Epoch(1)  # Submitted before the copy was made.
    stage.connect("n0", processes=(running("7", "0-1", command_digest=OTHER),))
    job, node = stage.core.state.jobs[JobId("7")], stage.core.state.nodes[NodeId("n0")]
    assert job.state is JobState.PENDING
    assert not job.ranks
    assert "another command" in node.message
    # Its cores are not given to anybody, and nobody ends it for the job of that number.
    stage.cancel("7")
    assert [str(cpus) for cpus in node.foreign.values()] == ["0-1"]


def test_the_exit_status_of_another_command_is_not_that_of_the_job() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("7")
    stage.plan(on("7", "n0:0-3"))
    stage.launched("n0", "7")
    stage.start(epoch=2)
    spec = stage.core.state.jobs[JobId("7")].spec
    answers = stage.connect("n0", processes=(ended("7", 3, attempt=1, command_digest=OTHER),))
    assert forget("n0", "7") in answers
    job = stage.core.state.jobs[JobId("7")]
    assert job.state is JobState.LOST
    stage = Stage()
    stage.up("n0")
    stage.submit("7")
    stage.plan(on("7", "n0:0-3"))
    stage.launched("n0", "7")
    own = command_digest(spec.argv, spec.cwd, spec.user)
    stage.process_ended("n0", "7", 3, command_digest=OTHER)
    assert stage.core.state.jobs[JobId("7")].state is JobState.RUNNING
    stage.process_ended("n0", "7", 3, command_digest=own)
    assert stage.core.state.jobs[JobId("7")].state is JobState.FAILED
