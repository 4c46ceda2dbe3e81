"""An agent tells two jobs of one number apart, over a restart as well."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from system.agent.conftest import CPUS, plain_agent

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

__all__ = ["plain_agent"]

ONE = str(CPUS[0])


def refused(agent: Any, argv: list[str], **fields: object) -> str:
    with pytest.raises(grpc.RpcError) as refusal:
        agent.launch("7", argv, ONE, **fields)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    details: str = refusal.value.details()
    return details


def test_another_command_of_the_same_number_is_refused(plain_agent: Any) -> None:
    agent = plain_agent
    agent.launch("7", ["sleep", "600"], ONE)
    assert agent.launch("7", ["sleep", "600"], ONE).already_running
    assert "another job 7 with another command, which runs" in refused(agent, ["true"])
    # Nor does a later attempt of the other job end it.
    assert "another command" in refused(agent, ["true"], attempt=2)
    assert agent.processes()["7"].state == pb.PROCESS_STATE_RUNNING


def test_the_exit_status_of_one_job_is_not_given_for_another(plain_agent: Any) -> None:
    agent = plain_agent
    agent.launch("7", ["sh", "-c", "exit 3"], ONE)
    agent.ended("7")
    assert "which has ended" in refused(agent, ["true"])
    agent.stub.ForgetProcess(pb.ForgetProcessRequest(header=agent.header(), job_id="7"))
    assert not agent.launch("7", ["true"], ONE).already_running
    agent.ended("7")


def test_who_takes_command_is_admitted_before_the_answer(plain_agent: Any) -> None:
    agent = plain_agent

    def inventory(epoch: int, name: str, number: int = 0) -> pb.Inventory:
        header = common.CommandHeader(epoch=epoch, coordinator_id=name, journal_number=number)
        answer: pb.Inventory = agent.stub.GetInventory(pb.GetInventoryRequest(header=header))
        return answer

    inventory(50, "one", 12)
    inventory(50, "one", 11)
    told = agent.stub.GetInventory(pb.GetInventoryRequest())
    assert (told.epoch, told.coordinator_id, told.journal_number) == (50, "one", 12)
    for epoch, name in ((50, "two"), (49, "one")):
        with pytest.raises(grpc.RpcError) as refusal:
            inventory(epoch, name)
        assert refusal.value.code() is grpc.StatusCode.ABORTED
    assert inventory(51, "two").journal_number == 0
