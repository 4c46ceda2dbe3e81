"""The message to an agent that starts the process of a job on its node, and its output files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from wattfold.contract.ids import JobId, NodeId, task_of
from wattfold.contract.job_variables import JOB_ID_PATTERN
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests.output_patterns import process_path
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.spec import UNKNOWN_UID, JobSpec, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb_coordinator
from wattfold.v1 import node_agent_pb2 as pb

MODES = {
    ResizeMode.FIXED: common_pb2.RESIZE_MODE_FIXED,
    ResizeMode.MASK: common_pb2.RESIZE_MODE_MASK,
    ResizeMode.TEAM: common_pb2.RESIZE_MODE_TEAM,
    ResizeMode.MAP: common_pb2.RESIZE_MODE_MAP,
    # The agent queries the program for the way in which it accepts a map.
    ResizeMode.REBUILD: common_pb2.RESIZE_MODE_MAP,
    # Each attempt keeps the cores on which it started.
    ResizeMode.RESTART: common_pb2.RESIZE_MODE_FIXED,
}


def launch_request(
    action: act.Launch,
    header: common_pb2.CommandHeader,
    launch: LaunchData,
    step_key: bytes = b"",
) -> pb.LaunchRequest:
    """Return the request that starts a job's process. ``step_key``: for jobs that start steps."""
    spec = action.spec
    is_launcher = spec.own_launcher and not action.steps_only
    place = spec, action.job_id, action.node_id, action.rank, action.ranks, is_launcher
    return pb.LaunchRequest(
        header=header,
        job_id=action.job_id,
        argv=spec.argv,
        env=_guest_threads(action)
        | dict(launch.env)
        | _slurm_names(launch, action)
        | _array_names(launch, action.job_id),
        cwd=spec.cwd,
        stdout_path=_process_path(spec.stdout_path, *place),
        stderr_path=_process_path(spec.stderr_path, *place),
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


def _guest_threads(action: act.Launch) -> dict[str, str]:
    """Return the thread settings of a whole-node job in mode mask that starts on part of a node.

    Such a program keeps its number of threads. With one thread for each core of the node, the
    threads would share fewer cores, and every barrier would wait for a thread without a core.
    """
    spec, cores = action.spec, len(action.cpus)
    guest = spec.unit is SizeUnit.NODES and 0 < cores < action.launch_cpus
    if not guest or spec.mode is not ResizeMode.MASK:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, cores // spec.tasks_on(cores)))}


def snapshot_dir(spec: JobSpec, job_id: JobId) -> str:
    """Return the snapshot folder of a job, relative to its working directory; empty = none."""
    if not spec.restarts:
        return ""
    return (spec.snapshot_dir or "wattfold-%j.snapshot").replace("%j", job_id)


def job_outputs(job: Job) -> Iterator[pb_coordinator.JobOutput]:
    """Yield the output files of the processes of an attempt, as the agents open them.

    A launcher writes all output of its job. The step hosts on the other nodes have no files.
    """
    spec, ranks = job.spec, list(job.ranks.values())
    several = len(ranks), spec.own_launcher
    for number, rank in enumerate(ranks[:1] if spec.own_launcher else ranks):
        paths = [
            posixpath.join(spec.cwd, found or f"wattfold-{job.job_id}.{end}")
            for path, end in ((spec.stdout_path, "out"), (spec.stderr_path, "err"))
            for found in [_process_path(path, spec, job.job_id, rank.node_id, number, *several)]
        ]
        yield pb_coordinator.JobOutput(
            node_id=rank.node_id, rank=number, stdout_path=paths[0], stderr_path=paths[1]
        )


def _process_path(
    path: str,
    spec: JobSpec,
    job_id: JobId,
    node_id: NodeId,
    rank: int,
    ranks: int,
    is_launcher: bool,
) -> str:
    """Return the output path of a process, with its patterns replaced.

    Each process that Wattfold starts has its own file. A launcher has the path itself, because the
    processes of all nodes write to it. A job that restarts on fewer nodes continues its files.
    """
    may_have_more = spec.mode is ResizeMode.RESTART and spec.unit is SizeUnit.NODES
    if spec.unit is SizeUnit.UNITS:
        may_have_more = spec.restarts and spec.spread is not Spread.TOGETHER
    several = ranks > 1 or (may_have_more and spec.size_max > 1)
    array_id, index = task_of(job_id) or (job_id, 0)
    values = {"j": job_id, "x": spec.name, "u": spec.user, "N": node_id, "n": str(rank)}
    values |= {"A": array_id, "a": str(index)}
    return process_path(path, values, several=several and not is_launcher)


def _slurm_names(launch: LaunchData, action: act.Launch) -> dict[str, str]:
    """Return the variable with the job ID for a job that requests it under the name of Slurm."""
    requested = dict(launch.env).get("SLURM_JOB_ID") == JOB_ID_PATTERN
    return {"SLURM_JOB_ID": action.job_id} if requested else {}


def _array_names(launch: LaunchData, job_id: JobId) -> dict[str, str]:
    """Return the variables of a task of an array, also under the names of Slurm if requested."""
    task = task_of(job_id)
    if task is None:
        return {}
    array_id, index = task[0], str(task[1])
    names = {"WATTFOLD_ARRAY_ID": array_id, "WATTFOLD_ARRAY_INDEX": index}
    if dict(launch.env).get("SLURM_JOB_ID") == JOB_ID_PATTERN:
        names |= {"SLURM_ARRAY_JOB_ID": array_id, "SLURM_ARRAY_TASK_ID": index}
    return names
