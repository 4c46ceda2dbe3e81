"""Conversion of reported processes and refusals to the events of the core."""

from __future__ import annotations

import grpc
import pytest

from wattfold.contract.refusals import NODE_FAULT
from wattfold.coordinator.adapters.agents.messages import of_the_node, process
from wattfold.v1 import node_agent_pb2 as pb


def info(state: pb.ProcessState.ValueType, *, adopted: bool) -> pb.ProcessInfo:
    message = pb.ProcessInfo(job_id="slurm-7", cpus="0-1", state=state)
    if adopted:
        message.adoption.allocated_cpus = "0-3"
    return message


def test_a_running_job_of_another_owner_is_adopted() -> None:
    found = process(info(pb.PROCESS_STATE_RUNNING, adopted=True)).adopted
    assert found is not None
    assert (str(found.cpus), str(found.allocated)) == ("0-1", "0-3")
    assert process(info(pb.PROCESS_STATE_RUNNING, adopted=False)).adopted is None


@pytest.mark.parametrize("state", [pb.PROCESS_STATE_ENDED, pb.PROCESS_STATE_LOST])
def test_an_ended_job_of_another_owner_is_not_adopted(state: pb.ProcessState.ValueType) -> None:
    assert process(info(state, adopted=True)).adopted is None


@pytest.mark.parametrize(
    ("trailing", "fault"),
    [
        ((NODE_FAULT,), True),
        ((("content-type", "text"), NODE_FAULT), True),
        (((NODE_FAULT[0], "job"),), False),
        ((), False),
        (None, False),
    ],
)
def test_a_refusal_says_whether_the_node_is_at_fault(
    trailing: tuple[tuple[str, str], ...] | None, fault: bool
) -> None:
    """A job is not charged an attempt for a fault of its node."""
    metadata = None if trailing is None else grpc.aio.Metadata(*trailing)
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.FAILED_PRECONDITION, grpc.aio.Metadata(), metadata, "no room on disk"
    )
    assert of_the_node(error) is fault
