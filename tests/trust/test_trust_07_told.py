"""Processes that outlive their job are reported, as are threads that leave their mask."""

from __future__ import annotations

import pytest
from unit.core.stage import Stage, node_spec

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents import messages as agent_messages
from wattfold.coordinator.adapters.copies.job_messages import notes
from wattfold.coordinator.cli.jobs.lists.job_tables import where_or_reason
from wattfold.coordinator.core.model.job import Job
from wattfold.v1 import coordinator_pb2
from wattfold.v1 import node_agent_pb2 as pb


def told(stage: Stage, usage: pb.JobUsage) -> str:
    job: Job = stage.job("a")
    message = pb.Telemetry(node_id="n0", jobs=[usage])
    sample = agent_messages.sample(message, node_spec("n0"), 0)
    return notes(job, [(NodeId("n0"), sample.jobs[JobId("a")])])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"processes_left": 12}, "ending: 12 processes still alive on n0"),
        ({"processes_left": 1}, "ending: 1 process still alive on n0"),
        (
            {"stray_cpus": "3", "stray_repairs": 2},
            "its threads bind themselves to CPUs 3 of n0, corrected 2 times",
        ),
    ],
)
def test_notes_of_a_job_that_has_not_ended(fields, words):
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    assert told(stage, pb.JobUsage(job_id="a", cpus="0-1", **fields)) == words


def test_the_queue_shows_the_note():
    job = coordinator_pb2.Job(
        state=coordinator_pb2.JOB_STATE_RUNNING,
        shares=[coordinator_pb2.NodeShare(node_id="n0", cpus="0-1")],
        message="ending: 12 processes still alive on n0",
    )
    assert where_or_reason(job).endswith(", ending: 12 processes still alive on n0")


def test_a_process_of_which_some_are_left_still_runs():
    """Its cores stay its own: for the core it has not ended."""
    process = pb.ProcessInfo(
        job_id="a", cpus="0-1", state=pb.PROCESS_STATE_RUNNING, processes_left=3
    )
    assert agent_messages.process(process).running
