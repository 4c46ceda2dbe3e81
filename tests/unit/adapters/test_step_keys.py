"""The coordinator's secret, step keys of jobs, addresses of steps, and keys sent to agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.inventories import node_spec
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.agents.step_keys import (
    SECRET_NAME,
    StepSecretError,
    step_keys,
    steps_address,
)
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb


def test_keys_are_the_same_after_a_restart_and_of_one_job_each(tmp_path: Path) -> None:
    first = step_keys(tmp_path)
    assert (tmp_path / SECRET_NAME).stat().st_mode & 0o777 == 0o600
    assert step_keys(tmp_path)(JobId("1")) == first(JobId("1"))
    assert len({first(JobId("1")), first(JobId("2")), (tmp_path / SECRET_NAME).read_bytes()}) == 3
    assert len(first(JobId("1"))) == 32


def test_a_secret_others_can_read_or_that_was_cut_is_refused(tmp_path: Path) -> None:
    step_keys(tmp_path)
    (tmp_path / SECRET_NAME).chmod(0o640)
    with pytest.raises(StepSecretError, match="change its mode to 0600"):
        step_keys(tmp_path)
    (tmp_path / SECRET_NAME).chmod(0o600)
    (tmp_path / SECRET_NAME).write_bytes(b"short")
    with pytest.raises(StepSecretError, match="5 bytes"):
        step_keys(tmp_path)


@pytest.mark.parametrize(
    ("told", "agent", "address"),
    [
        ("", "n1:7070", ""),
        ("unix:/run/s", "unix:/run/a", "unix:/run/s"),
        ("tcp:7071", "n1:7070", "tcp:n1:7071"),
        ("tcp:7071", "[fe80::1]:7070", "tcp:[fe80::1]:7071"),
        ("tcp:7071", "unix:/run/a", "tcp:127.0.0.1:7071"),
    ],
)
def test_the_host_of_steps_is_that_of_the_agent(told: str, agent: str, address: str) -> None:
    assert steps_address(told, agent) == address
    inventory = pb.Inventory(node_id="n", cpus="0", steps_address=told)
    assert node_spec(inventory, NodeId("n"), agent).steps_address == address


def test_only_jobs_that_start_steps_are_sent_a_key() -> None:
    plain = act.Launch(
        node_id=NodeId("n"),
        job_id=JobId("1"),
        spec=JobSpec(name="j", app="a", argv=("x",)),
        cpus=CpuSet.parse("0"),
        launch_cpus=1,
        rank=0,
        ranks=1,
        request_id="r",
        cause="c",
    )
    assert launch_request(plain, common_pb2.CommandHeader(), LaunchData(), b"k").step_key == b""
