"""Where the processes of a job write: files of their own, the same ones after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import job_spec

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.launch_data import LaunchData
from wattfold.coordinator.adapters.launch_messages import launch_request
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core.job import ResizeMode, SizeUnit
from wattfold.v1 import common_pb2

RESTARTED: dict[str, Any] = {"mode": ResizeMode.RESTART, "unit": SizeUnit.NODES}


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
    ],
)
def test_the_file_of_a_rank(
    ranks: int, most: int, fields: dict[str, Any], path: str, told: str
) -> None:
    launch = act.Launch(
        node_id=NodeId("n0"),
        job_id=JobId("7"),
        spec=job_spec(1, most, stdout_path=path, stderr_path=path, **fields),
        cpus=CpuSet.parse("0"),
        launch_cpus=1,
        rank=1,
        ranks=ranks,
        request_id="r",
        cause="c",
    )
    request = launch_request(launch, common_pb2.CommandHeader(), LaunchData())
    assert (request.stdout_path, request.stderr_path) == (told, told)
