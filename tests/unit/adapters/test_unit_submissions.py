"""Submission of jobs that count in units, and their launch requests to agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import node

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import spec_message
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.possible import check_possible
from wattfold.coordinator.adapters.requests.profiles import profile_from
from wattfold.coordinator.adapters.requests.queues import queued
from wattfold.coordinator.adapters.requests.submissions import job_spec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.amounts import GIB
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

UNITS: dict[str, Any] = {"argv": ["run"], "unit": pb.SIZE_UNIT_UNITS, "unit_cores": 2}


def taken(**fields: Any) -> JobSpec:
    return job_spec(pb.JobSpec(**{**UNITS, **fields}))


def test_units_come_back_as_they_were_asked_for() -> None:
    sent = pb.JobSpec(
        **UNITS,
        size_min=3,
        size_max=5,
        kind=pb.JOB_KIND_MOLDABLE,
        memory_bytes=GIB,
        gpus=1,
        spread=pb.UNIT_SPREAD_APART,
    )
    spec = job_spec(sent)
    assert (spec.unit, spec.unit_cores, spec.spread) == (SizeUnit.UNITS, 2, Spread.APART)
    assert (spec.size_min, spec.size_max, spec.kind) == (3, 5, JobKind.MOLDABLE)
    back = spec_message(spec, Clock())
    assert (back.unit, back.unit_cores, back.spread) == (sent.unit, 2, sent.spread)
    assert taken().spread is Spread.ANY


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"unit_cores": 0}, "units of 0 cores are not possible; give --unit-cores"),
        ({"kind": pb.JOB_KIND_MALLEABLE}, "a malleable job must request cores or nodes"),
        ({"kind": pb.JOB_KIND_EVOLVING}, "must be rigid or moldable"),
        ({"tasks_per_node": 2}, "each unit is one task"),
        ({"unit": pb.SIZE_UNIT_CORES}, "are only for jobs of --units"),
        (
            {"unit": pb.SIZE_UNIT_NODES, "unit_cores": 0, "spread": 2},
            "are only for jobs of --units",
        ),
        ({"spread": 9}, "does not know the spread of the units"),
        (
            {"kind": pb.JOB_KIND_MOLDABLE, "sharing": pb.CORE_SHARING_BORROW},
            "has all cores of its units, so it cannot borrow",
        ),
        ({"mode": common_pb2.RESIZE_MODE_MAP}, "mode map is for jobs on cores of one node"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        taken(**fields)


SITE = [
    replace(node("n0", 4).spec, memory_bytes=8 * GIB, gpus=("0", "1")),
    replace(node("n1", 6, floor_w=20, max_w=40).spec, memory_bytes=4 * GIB),
]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"unit_cores": 7}, "the job requests units of 7 cores; the largest node, n1, has 6"),
        ({"size_min": 6}, "the job requests 6 units of 2 cores; all nodes together hold 5"),
        ({"size_min": 4, "spread": 2}, "4 units of 2 cores on one node; the largest node holds 3"),
        (
            {"size_min": 3, "spread": 3},
            "3 units of 2 cores on separate nodes; only 2 nodes hold a unit",
        ),
        ({"memory_bytes": 9 * GIB}, "9 GiB of memory for each unit; a node has at most 8"),
        ({"gpus": 3}, "3 GPUs for each unit; a node has at most 2"),
        ({"size_min": 5, "memory_bytes": 3 * GIB}, "5 units of 2 cores; all nodes .* hold 3"),
        ({"size_min": 3, "gpus": 1}, "3 units of 2 cores; all nodes together hold 2"),
        ({"gpus": 1, "unit_cores": 5}, "1 unit of 5 cores; all nodes together hold 0"),
    ],
)
def test_more_than_all_nodes_hold_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        check_possible(taken(**fields), SITE)


@pytest.mark.parametrize(
    "fields",
    [
        {"size_min": 5},
        {"size_min": 3, "spread": 2},
        {"size_min": 2, "spread": 3},
        {"size_min": 3, "memory_bytes": 3 * GIB},
        {"size_min": 2, "gpus": 1},
    ],
)
def test_what_fits_just_so_is_taken(fields: dict[str, Any]) -> None:
    check_possible(taken(**fields), SITE)


def test_a_queue_counts_the_cores_of_units_and_the_nodes_of_those_apart() -> None:
    cores, nodes = Queue(name="q", cores_max=8), Queue(name="q", nodes_max=3)
    assert queued(taken(size_min=4), cores).queue == "q"
    with pytest.raises(InvalidRequestError, match="up to 10 cores; queue q allows at most 8 cores"):
        queued(taken(size_min=5), cores)
    assert queued(taken(size_min=4), nodes).queue == "q"
    with pytest.raises(InvalidRequestError, match="up to 4 nodes; queue q allows at most 3 nodes"):
        queued(taken(size_min=4, spread=pb.UNIT_SPREAD_APART), nodes)


def launched(spec: JobSpec, cpus: str, ranks: int = 2) -> Any:
    sizes = ((NodeId("n0"), "unix:/r/n0", 6), (NodeId("n1"), "unix:/r/n1", 2))
    action = act.Launch(
        node_id=NodeId("n0"),
        job_id=JobId("7"),
        spec=spec,
        cpus=CpuSet.parse(cpus),
        launch_cpus=len(CpuSet.parse(cpus)),
        rank=0,
        ranks=ranks,
        request_id="r",
        cause="c",
        step_nodes=tuple(
            act.StepNode(node_id=name, address=address, cpus=cores)
            for name, address, cores in sizes
        ),
    )
    return launch_request(action, common_pb2.CommandHeader(), LaunchData())


def test_an_agent_is_told_of_the_memory_and_the_tasks_of_all_units_there() -> None:
    request = launched(taken(size_min=4, memory_bytes=GIB), "0-5")
    assert (request.memory_bytes, request.tasks_per_node) == (3 * GIB, 3)
    assert [node.tasks for node in request.step_nodes] == [3, 1]


def test_of_other_jobs_it_is_told_the_same_of_every_node() -> None:
    spec = job_spec(pb.JobSpec(argv=["run"], unit=pb.SIZE_UNIT_NODES, memory_bytes=GIB, size_min=2))
    request = launched(spec, "0-5")
    assert (request.memory_bytes, request.tasks_per_node) == (GIB, 1)
    assert [node.tasks for node in request.step_nodes] == [0, 0]


@pytest.mark.parametrize(
    ("spread", "requeue", "path"),
    [("any", 0, "o"), ("any", 1, "o.0"), ("together", 1, "o")],
)
def test_units_that_may_be_started_again_on_more_nodes_keep_their_files(
    spread: str, requeue: int, path: str
) -> None:
    spec = taken(size_min=2, stdout_path="o", requeue_max=requeue)
    request = launched(replace(spec, spread=Spread(spread)), "0-3", ranks=1)
    assert request.stdout_path == path


def test_no_profile_is_in_units() -> None:
    with pytest.raises(ValueError, match="in cores or nodes"):
        profile_from(pb.Profile(app="a", unit=pb.SIZE_UNIT_UNITS))
