"""Output files of the processes of a job: separate files, reused after a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import job_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import common_pb2

RESTARTED: dict[str, Any] = {"mode": ResizeMode.RESTART, "unit": SizeUnit.NODES}


def launch_of(ranks: int, most: int, fields: dict[str, Any], path: str) -> act.Launch:
    return act.Launch(
        node_id=NodeId("n0"),
        job_id=JobId("7"),
        spec=replace(job_spec(1, most, stdout_path=path, stderr_path=path, **fields), name="a/b"),
        cpus=CpuSet.parse("0"),
        launch_cpus=1,
        rank=1,
        ranks=ranks,
        request_id="r",
        cause="c",
    )


@pytest.mark.parametrize(
    ("ranks", "most", "fields", "path", "told"),
    [
        (1, 1, {}, "o-%j", "o-7"),
        (1, 4, {}, "o", "o"),
        (2, 2, {"unit": SizeUnit.NODES}, "o", "o.1"),
        (2, 2, {"unit": SizeUnit.NODES}, "o-%n", "o-1"),
        (2, 2, {"unit": SizeUnit.NODES}, "", ""),
        (1, 2, {"unit": SizeUnit.NODES}, "o", "o"),
        (1, 2, RESTARTED, "o", "o.1"),
        (1, 1, RESTARTED, "o", "o"),
        (1, 4, {"mode": ResizeMode.RESTART}, "o", "o"),
        (2, 2, {"unit": SizeUnit.NODES}, "o-%N", "o-n0"),
        (2, 2, {"unit": SizeUnit.NODES}, "o-%%n", "o-%n.1"),
        (2, 2, {"unit": SizeUnit.NODES, "own_launcher": True}, "o", "o"),
        (1, 1, {"user": "ada"}, "%x-%u-%j%%j", "a_b-ada-7%j"),
        (1, 1, {}, "100%", "100%"),
        (1, 1, {}, "%q", "%q"),
    ],
)
def test_the_file_of_a_rank(
    ranks: int, most: int, fields: dict[str, Any], path: str, told: str
) -> None:
    launch = launch_of(ranks, most, fields, path)
    request = launch_request(launch, common_pb2.CommandHeader(), LaunchData())
    assert (request.stdout_path, request.stderr_path) == (told, told)


@pytest.mark.parametrize(
    ("given", "sent"), [("%j", {"SLURM_JOB_ID": "7"}), ("3", {"SLURM_JOB_ID": "3"}), (None, {})]
)
def test_the_job_id_under_the_name_of_slurm(given: str | None, sent: dict[str, str]) -> None:
    env = (("SLURM_JOB_ID", given),) if given else ()
    request = launch_request(
        launch_of(1, 1, {}, ""), common_pb2.CommandHeader(), LaunchData(env=env)
    )
    assert dict(request.env) == sent
