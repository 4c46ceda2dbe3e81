"""What a keeper is told to start a job: environment, files, account, cgroups."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field

from wattfold.contract.topology import Topology
from wattfold.nodeagent.adapters.cpu_time import CpuClock
from wattfold.nodeagent.adapters.cpuset import MaskControl
from wattfold.nodeagent.adapters.emulated_zones import EmulatedFirmware
from wattfold.nodeagent.adapters.processes import KeeperOrder
from wattfold.nodeagent.adapters.state_store import StateStore, device_refusal
from wattfold.nodeagent.core.launch import LaunchOrder, ShimSetting, job_environment
from wattfold.nodeagent.service.records import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPorts:
    """What the jobs need from outside."""

    store: StateStore
    masks: MaskControl
    clock: CpuClock
    firmware: EmulatedFirmware | None
    boot_id: str
    shim_library: str
    files_soft_max: int
    topology: Topology = field(default_factory=Topology)


def keeper_order(
    ports: JobPorts,
    shim_endpoint: str,
    job: Job,
    order: LaunchOrder,
    account: pwd.struct_passwd | None,
) -> KeeperOrder:
    """Makes what holds the job and tells how to start it. Raises Refused."""
    shim = ShimSetting(library=ports.shim_library, endpoint=shim_endpoint)
    env = job_environment(order, shim)
    if account is not None:
        account_env = {"HOME": account.pw_dir, "USER": account.pw_name}
        env = {**account_env, "LOGNAME": account.pw_name, **env}
    try:
        groups = [*ports.masks.prepare(job.id, job.cpus), *ports.clock.prepare(job.id)]
        if ports.firmware is not None:
            groups.extend(ports.firmware.prepare(job.id, len(job.cpus)))
    except OSError as error:
        raise device_refusal(error, f"job {job.id}: cannot make its cgroup") from None
    return KeeperOrder(
        argv=list(order.argv),
        env=env,
        cwd=order.cwd,
        stdout_path=os.path.join(order.cwd, order.stdout_path or f"wattfold-{job.id}.out"),
        stderr_path=os.path.join(order.cwd, order.stderr_path or f"wattfold-{job.id}.err"),
        affinity=list(ports.masks.affinity_at_start(job.cpus)),
        procs_paths=[str(path) for path in dict.fromkeys(groups)],
        uid=account.pw_uid if account else None,
        gid=account.pw_gid if account else None,
        user=account.pw_name if account else "",
        exit_path=str(ports.store.jobs / f"{job.id}.exit"),
        agent_pid_path=str(ports.store.agent_pid_path),
        files_soft_max=ports.files_soft_max,
    )
