"""Processor maps of Charm++ jobs in telemetry and in answers to clients."""

from __future__ import annotations

from unit.core.stage import NODES, Stage, job_spec, on
from unit.core.stage import node_spec as core_node

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.inventories import node_spec
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.agents.messages import sample
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import job_message
from wattfold.coordinator.adapters.copies.map_views import statements
from wattfold.coordinator.adapters.copies.site_messages import node_message
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

S = 1_000_000_000
NODE = node_spec(agent_pb.Inventory(node_id="n0", cpus="0-3"), NodeId("n0"))


def element(pe: int, *, enabled: bool, objects: int) -> agent_pb.ProcessorElement:
    return agent_pb.ProcessorElement(
        pe=pe, enabled=enabled, objects=objects, pid=100 + pe, cpu_ns=S, memory_bytes=8 << 20
    )


def usage(**fields: object) -> agent_pb.JobUsage:
    return agent_pb.JobUsage(job_id="a", **fields)


def told(found: agent_pb.JobUsage, mode: ResizeMode = ResizeMode.MAP) -> pb.Job:
    """The job as clients see it after this telemetry."""
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(mode=mode))
    stage.plan(on("a", "n0:0-1", cap_w=10))
    stage.launched("n0", "a")
    seen = Observations()
    seen.take(sample(agent_pb.Telemetry(node_id="n0", jobs=[found]), NODE, S))
    return job_message(stage.job("a"), seen, Clock(0), stage.now_ns)


FOLLOWED = usage(
    processor_map=b"\1\1\0\0",
    map_applied=True,
    shim=agent_pb.SHIM_STATE_ATTACHED,
    processors=[element(pe, enabled=pe < 2, objects=8 if pe < 2 else 0) for pe in range(4)],
)


def test_the_map_and_its_pes_are_told() -> None:
    job = told(FOLLOWED)
    assert (job.processor_map, job.map_applied, job.map_message) == ("1100", True, "")
    assert [pe.objects for pe in job.processors] == [8, 8, 0, 0]
    assert [pe.pid for pe in job.processors] == [100, 101, 102, 103]
    assert statements(job) == [
        "Its objects may be on 2 of its 4 PEs (1100), one PE for each of its cores.",
        "Residual PEs: 2, with 16 MiB; they take part in reductions and are never slowed.",
    ]


def test_what_does_not_follow_is_confined_and_says_why() -> None:
    job = told(
        usage(
            processor_map=b"\1\1\1\1",
            map_message="the program has not come to its next step",
            shim=agent_pb.SHIM_STATE_CONFINED,
            surplus_processes=2,
        )
    )
    assert job.confined
    assert not job.map_applied
    assert statements(job)[1:] == [
        "This is not the last requested map: the program has not come to its next step.",
        "Processes left over from restarts: 2.",
    ]


def test_a_program_that_is_not_up_has_a_reason_and_no_map() -> None:
    job = told(usage(map_message="nobody listens"))
    assert job.processor_map == ""
    assert statements(job) == ["Its processor map: nobody listens."]


def test_jobs_of_other_modes_have_no_map() -> None:
    job = told(FOLLOWED, ResizeMode.TEAM)
    assert job.processor_map == ""
    assert statements(job) == []


def test_unknown_objects_stay_unknown() -> None:
    found = agent_pb.ProcessorElement(pe=0, enabled=True)
    job = told(usage(processor_map=b"\1", map_applied=True, processors=[found]))
    assert not job.processors[0].HasField("objects")


def test_a_launch_carries_its_map() -> None:
    action = act.Launch(
        node_id=NodeId("n0"),
        job_id=JobId("a"),
        spec=job_spec(mode=ResizeMode.MAP),
        cpus=CpuSet.parse("0"),
        launch_cpus=2,
        rank=0,
        ranks=1,
        request_id="r",
        cause="",
        processor_map=b"\1\0",
    )
    request = launch_request(action, common_pb2.CommandHeader(), LaunchData())
    assert request.processor_map == b"\1\0"
    assert request.mode == common_pb2.RESIZE_MODE_MAP


def test_a_flooded_socket_is_told_of_jobs_of_any_mode() -> None:
    job = told(usage(shim_message="more than 512 connections"), ResizeMode.TEAM)
    assert job.shim_message == "more than 512 connections"


def test_nodes_where_a_job_is_resident_are_told_apart() -> None:
    stage = Stage()
    for name in ("n0", "n1"):
        stage.register(name)
        stage.connect(core_node(name, steps_address="unix:s"))
        stage.leased(name)
    spec = job_spec(1, 2, unit=NODES, mode=ResizeMode.MAP, own_launcher=True)
    stage.submit("a", spec)
    stage.plan(on("a", "n0"))
    job = stage.job("a")
    message = job_message(job, Observations(), Clock(0), stage.now_ns)
    assert [(s.node_id, s.cpus, s.resident) for s in message.shares] == [
        ("n0", "0-3", False),
        ("n1", "", True),
    ]
    assert statements(message) == [
        "It has residual processes but no cores on n1; it may get cores there again while it runs."
    ]
    node = node_message(stage.core.state, stage.core.state.nodes[NodeId("n1")], None, ())
    assert (list(node.job_ids), list(node.resident_job_ids)) == ([], ["a"])
    assert node.free_cpus == "0-3"
    launch = act.Launch(
        node_id=NodeId("n1"),
        job_id=JobId("a"),
        spec=spec,
        cpus=CpuSet.parse("3"),
        launch_cpus=4,
        rank=1,
        ranks=2,
        request_id="",
        cause="",
        resident=True,
        pes=8,
    )
    request = launch_request(launch, common_pb2.CommandHeader(), LaunchData())
    assert (request.resident, request.pes) == (True, 8)
