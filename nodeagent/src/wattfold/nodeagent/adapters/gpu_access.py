"""Keeps jobs from the GPUs of others: by the devices controller, by a device program, or not.

What is denied is the device nodes of GPUs that are not the job's own, to its control group, before
its first process is in it. A descriptor that is open already stays open, so nothing is ever denied
to a running job: a GPU goes to its next owner when nothing of the last one is alive.
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
from wattfold.nodeagent.adapters import device_filter
from wattfold.nodeagent.adapters.cpuset import (
    enable_controllers,
    make_group,
    remove_group,
    write_group,
)
from wattfold.nodeagent.adapters.job_groups import may_enter
from wattfold.nodeagent.core.gpus import DeviceNode, NodeGpu, foreign_devices


class AccessMechanism(enum.Enum):
    """How jobs are kept from GPUs that are not their own; the values are for people."""

    CGROUP_V1 = "devices controller of cgroup version 1"
    CGROUP_V2 = "device program of cgroup version 2"
    TOLD = "environment variables only"


class GpuAccess(Protocol):
    """What the service needs."""

    @property
    def mechanism(self) -> AccessMechanism:
        """How it is done."""

    def prepare(self, job: JobId, gpus: Sequence[str]) -> tuple[Path, ...]:
        """Before a job with these GPUs starts: files its process writes itself into.

        Raises OSError.
        """

    def remove(self, job: JobId) -> None:
        """After the end of a job."""

    def close(self) -> None:
        """Removes what was made for the node, if no job is left."""


class Told:
    """Jobs know which GPUs are theirs, and nothing keeps them from others."""

    mechanism = AccessMechanism.TOLD

    def prepare(self, job: JobId, gpus: Sequence[str]) -> tuple[Path, ...]:  # noqa: ARG002
        """Nothing is to be made."""
        return ()

    def remove(self, job: JobId) -> None:
        """Nothing was made."""

    def close(self) -> None:
        """Nothing was made."""


class HeldAccess:
    """A control group for each job, to which the device nodes of others are denied."""

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
        """See the port."""
        group = self._node / job
        make_group(group)
        self._deny(group, foreign_devices(self._gpus, gpus))
        return (group / "cgroup.procs",)

    def remove(self, job: JobId) -> None:
        """See the port."""
        remove_group(self._node / job)

    def close(self) -> None:
        """See the port."""
        remove_group(self._node)

    def _deny_by_controller(self, group: Path, devices: Sequence[DeviceNode]) -> None:
        for device in {node for gpu in self._gpus for node in gpu.devices} - set(devices):
            # Of an earlier start of the job, with other GPUs.
            write_group(group / "devices.allow", _rule(device))
        for device in devices:
            write_group(group / "devices.deny", _rule(device))


def choose_access(cgroup_root: Path, node: str, wanted: str, gpus: Sequence[NodeGpu]) -> GpuAccess:
    """The best there is here. Raises OSError where a control group is wanted in vain."""
    if wanted == "off" or not gpus:
        return Told()
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
                why=failure,
                effect="jobs receive the names of their GPUs but can open others",
            )
    if wanted == "cgroup":
        raise failure
    return Told()


def access_roots(cgroup_root: Path) -> list[tuple[Path, AccessMechanism]]:
    """Where this host could deny devices to a group, as far as looking tells."""
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
    """Groups below a root, tried with a job that does not exist. Raises OSError."""
    group = root / "wattfold" / node
    for part in (group.parent, group):
        make_group(part)
        if mechanism is AccessMechanism.CGROUP_V2:
            # Beside controllers of version 1 it has none.
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
