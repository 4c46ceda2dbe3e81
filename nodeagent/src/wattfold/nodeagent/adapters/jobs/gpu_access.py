"""Denial of access to GPUs of other jobs: by the devices controller, a device program, or not.

The device nodes of GPUs that do not belong to the job are denied to its control group before its
first process enters the group. A descriptor that is already open stays open, so nothing is ever
denied to a running job: a GPU goes to its next owner after all processes of the last owner have
ended.
"""

from __future__ import annotations

import contextlib
import enum
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from wattfold.contract.ids import JobId
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import device_filter
from wattfold.nodeagent.adapters.jobs.cpuset import (
    enable_controllers,
    make_group,
    remove_group,
    write_group,
)
from wattfold.nodeagent.adapters.jobs.job_groups import may_enter
from wattfold.nodeagent.core.gpus import DeviceNode, NodeGpu, foreign_devices


class AccessMechanism(enum.Enum):
    """How access to other GPUs is denied to jobs. The values are for people."""

    CGROUP_V1 = "devices controller of cgroup version 1"
    CGROUP_V2 = "device program of cgroup version 2"
    TOLD = "environment variables only"


class GpuAccess(Protocol):
    """Port for the denial of GPU access."""

    @property
    def mechanism(self) -> AccessMechanism:
        """The mechanism."""

    def prepare(self, job: JobId, gpus: Sequence[str]) -> tuple[Path, ...]:
        """Prepare the start of a job with these GPUs. Returns the files to write its PID into.

        Raises OSError.
        """

    def remove(self, job: JobId) -> None:
        """Clean up after the end of a job."""

    def close(self) -> None:
        """Remove the node's group if no job is left."""


class NamedGpus:
    """No denial: jobs receive the names of their GPUs, but can open others."""

    mechanism = AccessMechanism.TOLD

    def prepare(self, job: JobId, gpus: Sequence[str]) -> tuple[Path, ...]:  # noqa: ARG002
        """Return no files."""
        return ()

    def remove(self, job: JobId) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class HeldAccess:
    """A control group for each job, which denies the device nodes of other GPUs."""

    def __init__(
        self,
        group: Path,
        mechanism: AccessMechanism,
        gpus: Sequence[NodeGpu],
    ) -> None:
        self.mechanism = mechanism
        self._node = group
        self._gpus = gpus
        v1 = mechanism is AccessMechanism.CGROUP_V1
        self._deny: Callable[[Path, Sequence[DeviceNode]], None]
        self._deny = self._deny_by_controller if v1 else device_filter.deny

    def prepare(self, job: JobId, gpus: Sequence[str]) -> tuple[Path, ...]:
        """See `GpuAccess`."""
        group = self._node / job
        make_group(group)
        self._deny(group, foreign_devices(self._gpus, gpus))
        return (group / "cgroup.procs",)

    def remove(self, job: JobId) -> None:
        """See `GpuAccess`."""
        remove_group(self._node / job)

    def close(self) -> None:
        """See `GpuAccess`."""
        remove_group(self._node)

    def _deny_by_controller(self, group: Path, devices: Sequence[DeviceNode]) -> None:
        for device in {node for gpu in self._gpus for node in gpu.devices} - set(devices):
            # The rule may be from an earlier start of the job with other GPUs.
            write_group(group / "devices.allow", _rule(device))
        for device in devices:
            write_group(group / "devices.deny", _rule(device))


def choose_access(cgroup_root: Path, node: str, wanted: str, gpus: Sequence[NodeGpu]) -> GpuAccess:
    """Return the best mechanism. Raises OSError if a control group is required but unusable."""
    if wanted == "off" or not gpus:
        return NamedGpus()
    failure = OSError(errno.ENOENT, "no control group can deny devices", str(cgroup_root))
    if not any(gpu.devices for gpu in gpus):
        failure = OSError(errno.ENODEV, "the device nodes of the GPUs are unknown: set gpu_devices")
    else:
        for root, mechanism in access_roots(cgroup_root):
            try:
                return held_access(root, node, mechanism, gpus)
            except OSError as error:
                failure = error
        if wanted == "auto":
            logs.warning(
                "gpu_access_not_denied",
                reason=failure,
                effect="jobs receive the names of their GPUs but can open others",
            )
    if wanted == "cgroup":
        raise failure
    return NamedGpus()


def access_roots(cgroup_root: Path) -> list[tuple[Path, AccessMechanism]]:
    """Return where this host could deny devices to a group, determined by reading only."""
    found = []
    if (cgroup_root / "devices" / "cgroup.procs").exists():
        found.append((cgroup_root / "devices", AccessMechanism.CGROUP_V1))
    for root in (cgroup_root, cgroup_root / "unified"):
        if (root / "cgroup.controllers").exists():
            found.append((root, AccessMechanism.CGROUP_V2))
    return found


def held_access(
    root: Path, node: str, mechanism: AccessMechanism, gpus: Sequence[NodeGpu]
) -> HeldAccess:
    """Return groups below a root, tested with a trial job. Raises OSError."""
    group = root / "wattfold" / node
    for part in (group.parent, group):
        make_group(part)
        if mechanism is AccessMechanism.CGROUP_V2:
            # With controllers of version 1, this hierarchy may have no controllers.
            with contextlib.suppress(OSError):
                enable_controllers(part.parent)
    access = HeldAccess(group, mechanism, gpus)
    trial = JobId(".trial")
    try:
        access.prepare(trial, ())
    finally:
        access.remove(trial)
    if not may_enter(group):
        raise PermissionError(
            errno.EACCES, "no process can be moved into this control group", str(group)
        )
    return access


def _rule(device: DeviceNode) -> str:
    return f"c {device.major}:{device.minor} rwm"
