"""Order to a keeper to start a job (environment, files, account, cgroups), and its removal."""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.contract.job_variables import SCRIPT_VARIABLE
from wattfold.contract.topology import Topology
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.emulated_zones import EmulatedFirmware
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.cpuset import MaskControl
from wattfold.nodeagent.adapters.jobs.gpu_access import GpuAccess, NamedGpus
from wattfold.nodeagent.adapters.jobs.job_groups import JobGroups
from wattfold.nodeagent.adapters.jobs.keeper_messages import KeeperOrder
from wattfold.nodeagent.adapters.jobs.memory_limits import MemoryLimits, Watched
from wattfold.nodeagent.adapters.jobs.step_folders import StepFolders, host_command
from wattfold.nodeagent.adapters.jobs.step_groups import StepGroups
from wattfold.nodeagent.adapters.state_store import StateStore, device_refusal
from wattfold.nodeagent.core.gpus import GpuNames, NodeGpu, gpu_environment
from wattfold.nodeagent.core.launch import LaunchOrder, ShimSetting, job_environment
from wattfold.nodeagent.core.steps import StepSetting, step_files
from wattfold.nodeagent.service.jobs.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPorts:
    """External ports and settings of the jobs."""

    store: StateStore
    masks: MaskControl
    groups: JobGroups
    clock: CpuClock
    firmware: EmulatedFirmware | None
    boot_id: str
    shim_library: str
    files_soft_max: int
    steps: StepFolders
    node_id: str
    remote_shell: str
    """The remote shell for launchers; empty = not installed."""
    topology: Topology = field(default_factory=Topology)
    memory: MemoryLimits = field(default_factory=Watched)
    gpus: tuple[NodeGpu, ...] = ()
    """GPUs of this node for jobs."""
    gpu_names: GpuNames = GpuNames.UUID
    gpu_access: GpuAccess = field(default_factory=NamedGpus)
    slurm: StepGroups = field(default_factory=lambda: StepGroups(Path("/sys/fs/cgroup")))


def keeper_order(
    ports: JobPorts,
    shim_endpoint: str,
    job: Job,
    order: LaunchOrder,
    account: pwd.struct_passwd | None,
) -> KeeperOrder:
    """Create the confinement of the job, and return the order to its keeper. Raises Refused."""
    shim = ShimSetting(library=ports.shim_library, endpoint=shim_endpoint)
    steps = _steps(ports, order, account)
    gpus = gpu_environment(ports.gpus, order.gpus, ports.gpu_names)
    env = job_environment(order, shim, steps, gpus)
    script = env.pop(SCRIPT_VARIABLE, "")
    if account is not None:
        account_env = {"HOME": account.pw_dir, "USER": account.pw_name}
        env = {**account_env, "LOGNAME": account.pw_name, **env}
    try:
        groups = _groups(ports, job)
        if ports.firmware is not None:
            groups.extend(ports.firmware.prepare(job.id, len(job.held), job.gpus))
    except OSError as error:
        raise device_refusal(error, f"job {job.id}: cannot make its cgroup") from None
    argv, stdout_path, stderr_path = list(order.argv), order.stdout_path, order.stderr_path
    inherited: list[int] = []
    if steps is not None and order.steps_only:
        inherited = [_listener(ports, job)]
        argv = host_command(ports.steps.path(job.id), ports.node_id, job.id, inherited[0])
        # Its steps write to their remote shells, so its own output only explains failures.
        stdout_path, stderr_path = os.devnull, stderr_path or os.devnull
    return KeeperOrder(
        argv=argv,
        env=env,
        cwd=order.cwd,
        stdout_path=os.path.join(order.cwd, stdout_path or f"wattfold-{job.id}.out"),
        stderr_path=os.path.join(order.cwd, stderr_path or f"wattfold-{job.id}.err"),
        script="" if order.steps_only else script,
        # A step host has no snapshot. The program has one, on the node where it runs.
        snapshot_path="" if order.steps_only else order.snapshot_path,
        keep_output=order.attempt > 1,
        affinity=list(ports.masks.affinity_at_start(job.place)),
        procs_paths=[str(path) for path in dict.fromkeys(groups)],
        uid=account.pw_uid if account else None,
        gid=account.pw_gid if account else None,
        user=account.pw_name if account else "",
        exit_path=str(ports.store.jobs / f"{job.id}.exit"),
        agent_pid_path=str(ports.store.agent_pid_path),
        stopped_path=ports.firmware.stopped_path(job.id) if ports.firmware else "",
        files_soft_max=ports.files_soft_max,
        processes_max=ports.groups.processes_max,
        groups=ports.groups.of(job.id),
        umask=order.umask,
        limits=[(limit.name, limit.soft) for limit in order.limits],
        inherited=inherited,
    )


def shell_order(
    ports: JobPorts, job: Job, key: bytes, account: pwd.struct_passwd | None
) -> KeeperOrder:
    """Return the order to start a host for the shells of a running job. Raises Refused.

    The host enters the control groups of the job. The keeper ends all processes below it, and no
    group, when the host ends.
    """
    try:
        if not ports.steps.path(job.id).exists():
            ports.steps.make(job.id, key, {}, account)
        groups = _groups(ports, job)
        if ports.firmware is not None and ports.firmware.slows_by_group:
            groups.extend(ports.firmware.files(job.id))
    except OSError as error:
        raise device_refusal(error, f"job {job.id}: cannot prepare a shell") from None
    listener = _listener(ports, job)
    return KeeperOrder(
        argv=host_command(ports.steps.path(job.id), ports.node_id, job.id, listener, job.pid),
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        cwd="/",
        stdout_path=os.devnull,
        stderr_path=os.devnull,
        script="",
        snapshot_path="",
        keep_output=True,
        affinity=list(ports.masks.affinity_at_start(job.place)),
        procs_paths=[str(path) for path in dict.fromkeys(groups)],
        uid=account.pw_uid if account else None,
        gid=account.pw_gid if account else None,
        user=account.pw_name if account else "",
        exit_path=str(ports.store.jobs / f"{job.id}.shells.exit"),
        agent_pid_path=str(ports.store.agent_pid_path),
        stopped_path="",
        files_soft_max=ports.files_soft_max,
        processes_max=ports.groups.processes_max,
        groups=[],
        umask=0o077,
        limits=[],
        inherited=[listener],
    )


def _groups(ports: JobPorts, job: Job) -> list[Path]:
    """Prepare the control groups of a job. Returns the files for PIDs. Raises OSError."""
    return [
        *ports.masks.prepare(job.id, job.place),
        *ports.clock.prepare(job.id),
        *ports.groups.prepare(job.id),
        *ports.memory.prepare(job.id, job.memory_limit_bytes),
        *ports.gpu_access.prepare(job.id, job.gpus),
    ]


def release(ports: JobPorts, job: JobId) -> None:
    """Remove the confinement of a job without processes."""
    # The firmware's thread first: without its accounting a job seems to return CPU time, and the
    # energy counters fall, which looks like a wrap.
    if ports.firmware is not None:
        ports.firmware.remove(job)
    ports.masks.remove(job)
    ports.clock.remove(job)
    ports.groups.remove(job)
    ports.memory.remove(job)
    ports.gpu_access.remove(job)
    try:
        ports.steps.remove(job)
    except OSError as error:
        logs.warning("step_folder_not_removed", job=job, reason=error)


def _steps(
    ports: JobPorts, order: LaunchOrder, account: pwd.struct_passwd | None
) -> StepSetting | None:
    """Create the folder of a job that starts its steps itself. Raises Refused."""
    if not order.step_nodes:
        return None
    hostname = socket.gethostname()
    files = step_files(order.step_nodes, order.tasks_per_node, hostname)
    try:
        ports.steps.make(order.job, order.step_key, files, account)
    except OSError as error:
        raise device_refusal(error, f"job {order.job}: cannot make its folder of steps") from None
    return StepSetting(
        folder=str(ports.steps.path(order.job)),
        remote_shell=ports.remote_shell,
        node_id=ports.node_id,
        hostname=hostname,
    )


def _listener(ports: JobPorts, job: Job) -> int:
    try:
        return ports.steps.listener(job.id).detach()
    except OSError as error:
        raise device_refusal(error, f"job {job.id}: cannot listen for its steps") from None
