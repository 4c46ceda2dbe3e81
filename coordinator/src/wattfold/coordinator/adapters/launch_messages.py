"""The command that starts the process of a job on a node, as its agent gets it."""

from __future__ import annotations

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.launch_data import LaunchData
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core.job import UNKNOWN_UID, JobSpec, ResizeMode, SizeUnit
from wattfold.coordinator.core.spread import Spread
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

MODES = {
    ResizeMode.FIXED: common_pb2.RESIZE_MODE_FIXED,
    ResizeMode.MASK: common_pb2.RESIZE_MODE_MASK,
    ResizeMode.TEAM: common_pb2.RESIZE_MODE_TEAM,
    ResizeMode.MAP: common_pb2.RESIZE_MODE_MAP,
    # How a program takes its map is found out by asking it.
    ResizeMode.REBUILD: common_pb2.RESIZE_MODE_MAP,
    # Each attempt keeps the cores it was started with.
    ResizeMode.RESTART: common_pb2.RESIZE_MODE_FIXED,
}


def launch_request(
    action: act.Launch,
    header: common_pb2.CommandHeader,
    launch: LaunchData,
    step_key: bytes = b"",
) -> pb.LaunchRequest:
    """The command that starts a job's process; ``step_key`` of one that starts its steps itself."""
    spec = action.spec
    return pb.LaunchRequest(
        header=header,
        job_id=action.job_id,
        argv=spec.argv,
        env=dict(launch.env),
        cwd=spec.cwd,
        stdout_path=_per_rank(spec.stdout_path, action),
        stderr_path=_per_rank(spec.stderr_path, action),
        cpus=str(action.cpus),
        mode=MODES[spec.mode],
        launch_cpus=action.launch_cpus,
        rank=action.rank,
        ranks=action.ranks,
        user=spec.user,
        uid=spec.uid if spec.uid != UNKNOWN_UID else None,
        umask=launch.umask,
        resource_limits=[
            common_pb2.ResourceLimit(name=limit.name, soft=limit.soft) for limit in launch.limits
        ],
        tasks_per_node=spec.tasks_on(len(action.cpus)),
        processor_map=action.processor_map,
        steps_only=action.steps_only,
        step_nodes=[
            pb.StepNode(
                node_id=node.node_id,
                address=node.address,
                cpus=node.cpus,
                tasks=spec.tasks_on(node.cpus) if spec.unit is SizeUnit.UNITS else 0,
            )
            for node in action.step_nodes
        ],
        step_key=step_key if action.step_nodes else b"",
        memory_bytes=spec.amounts_on(len(action.cpus)).memory_bytes,
        gpus=action.gpus,
        attempt=action.attempt,
        snapshot_dir=snapshot_dir(spec, action.job_id),
        resident=action.resident,
        pes=action.pes,
        epochs=spec.epochs,
    )


def snapshot_dir(spec: JobSpec, job_id: JobId) -> str:
    """Where a job keeps its snapshot, as for its directory; empty = it has none."""
    if not spec.restarts:
        return ""
    return (spec.snapshot_dir or "wattfold-%j.snapshot").replace("%j", job_id)


def _per_rank(path: str, action: act.Launch) -> str:
    """The processes of one job write to files of their own; %j and %n are its id and rank.

    A job that is started again on fewer nodes, or one, goes on in the files it has begun.
    """
    spec = action.spec
    may_have_more = spec.mode is ResizeMode.RESTART and spec.unit is SizeUnit.NODES
    if spec.unit is SizeUnit.UNITS:
        may_have_more = spec.restarts and spec.spread is not Spread.TOGETHER
    several = action.ranks > 1 or (may_have_more and spec.size_max > 1)
    if path and several and "%n" not in path:
        path += ".%n"
    return path.replace("%j", action.job_id).replace("%n", str(action.rank))
