"""Checks of this host other than power zones: account, cgroups, folders, keeper and shim.

All checks only read: no group, folder or lock is created.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from wattfold.nodeagent.adapters.config import Config
from wattfold.nodeagent.adapters.devices.powercap_files import may
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism, cpuset_here
from wattfold.nodeagent.adapters.jobs.gpu_access import AccessMechanism, access_roots
from wattfold.nodeagent.adapters.jobs.job_groups import ending_root, pids_here
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource
from wattfold.nodeagent.adapters.jobs.throttle import bandwidth_here
from wattfold.nodeagent.adapters.state_store import unsafe_parent
from wattfold.nodeagent.core.findings import GIVE_WRITE, Finding, Status
from wattfold.nodeagent.core.gpus import NodeGpu

_GROUP = "wattfold"
_LIBZMQ = "libzmq.so.5"
"""The name by which the shim loads it inside a job."""
_ELF = b"\x7fELF"


def account() -> Finding:
    """Return the account of this process, which decides most other findings."""
    uid = os.geteuid()
    if uid == 0:
        return Finding(subject="account", status=Status.OK, finding="root")
    return Finding(
        subject="account",
        status=Status.LIMITED,
        finding=f"uid {uid}, not root: usually only root can use power zones and cgroups, and"
        " all jobs run as this account",
        remedy="run this check as the account of the agent, usually root",
    )


def core_masks(config: Config) -> Finding:
    """Return how jobs would be confined to their cores."""
    if config.masks == "affinity":
        return _masks(Status.OK, "by the affinity of every thread, as configured")
    try:
        found = cpuset_here(config.cgroup_root)
    except OSError:
        found = None
    if found is None:
        return _no_cgroup(
            config.masks,
            f"{config.cgroup_root} has no cpuset controller",
            "enable the cpuset controller, or mount the cgroups of the host",
        )
    folder, mechanism = found
    if not group_usable(folder, v2=mechanism is MaskMechanism.CPUSET_V2):
        return _no_cgroup(
            config.masks, f"this account cannot write the cpuset controller in {folder}", GIVE_WRITE
        )
    return _masks(Status.OK, f"by {mechanism.value} in {folder}")


def job_ends(config: Config) -> Finding:
    """Return how all processes of a job would be ended, and the maximum number of processes."""
    most = f"at most {min(config.pids_max, pids_here())} processes and threads per job"
    if config.job_groups == "off":
        return _ends(Status.OK, f"by signals, as configured; {most}, counted by account")
    root = ending_root(config.cgroup_root)
    if root is None or not group_usable(root, v2=False):
        why = f"the agent cannot create control groups in {config.cgroup_root}"
        found = f"by signals, which a job that keeps creating processes can delay: {why}"
        status = Status.NO if config.job_groups == "cgroup" else Status.LIMITED
        return _ends(status, f"{found}; {most}, counted by account", GIVE_WRITE)
    return _ends(Status.OK, f"by control groups in {root}; {most}")


def _ends(status: Status, finding: str, remedy: str = "") -> Finding:
    return Finding(subject="ends of jobs", status=status, finding=finding, remedy=remedy)


def throttle(config: Config) -> list[Finding]:
    """Return how emulated caps would slow jobs; empty without emulation."""
    if config.emulation is None:
        return []
    wanted = config.emulation.throttle
    try:
        found = bandwidth_here(config.cgroup_root) if wanted != "signals" else None
    except OSError:
        found = None
    if found is not None and group_usable(found[0], v2=found[1]):
        good = f"emulated caps slow jobs with the CPU bandwidth controller in {found[0]}"
        return [Finding(subject="throttle", status=Status.OK, finding=good)]
    if wanted == "cgroup":
        why = "throttle = cgroup, but this account cannot write a CPU controller in"
        why += f" {config.cgroup_root}"
        return [Finding(subject="throttle", status=Status.NO, finding=why, remedy=GIVE_WRITE)]
    return [
        Finding(
            subject="throttle",
            status=Status.LIMITED,
            finding="emulated caps slow jobs with SIGSTOP and SIGCONT: less evenly, and only while"
            " the agent runs",
            remedy="let the agent write the CPU controller of a cgroup (usually as root)",
        )
    ]


def gpu_access(config: Config, gpus: Sequence[NodeGpu]) -> list[Finding]:
    """Return how access to GPUs of other jobs would be denied; empty without GPUs."""
    if not gpus:
        return []
    if config.gpu.access == "off":
        return [
            _access(Status.OK, "not denied, as configured: jobs receive the names of their GPUs")
        ]
    if config.gpu.emulated is not None:
        return [_access(Status.OK, "emulated GPUs have no device nodes")]
    short = Status.NO if config.gpu.access == "cgroup" else Status.LIMITED
    open_to_all = "not denied: jobs receive the names of their GPUs but can open others"
    if not any(gpu.devices for gpu in gpus):
        return [_access(short, f"{open_to_all}; device nodes are unknown", "set gpu_devices")]
    for root, mechanism in access_roots(config.cgroup_root):
        v2 = mechanism is AccessMechanism.CGROUP_V2
        if group_usable(root, v2=v2) and (not v2 or os.geteuid() == 0):
            tested = "; the agent tests it at its start" if v2 else ""
            return [_access(Status.OK, f"denied by the {mechanism.value} in {root}{tested}")]
    return [_access(short, f"{open_to_all}; no control group can deny devices", GIVE_WRITE)]


def _access(status: Status, finding: str, remedy: str = "") -> Finding:
    return Finding(subject="access to GPUs", status=status, finding=finding, remedy=remedy)


def folders(config: Config) -> list[Finding]:
    """Return whether the folders of the agent can be used or created."""
    return [
        folder("state folder", "state_dir", config.state_dir),
        folder("run folder", "run_dir", config.run_dir),
    ]


def folder(subject: str, key: str, path: Path) -> Finding:
    """Return whether a folder can be used or created so that only this account can change it."""
    other = f"or choose another {key}"
    if not os.path.lexists(path):
        above = next(p for p in path.parents if os.path.exists(p))
        if why := unsafe_parent(path):
            return _unusable(subject, f"{path}: {why}", f"change that folder, {other}")
        if may(above, os.W_OK) and above.is_dir():
            return Finding(subject=subject, status=Status.OK, finding=f"{path} can be created")
        why = f"{path} does not exist and cannot be created in {above}"
        remedy = f"create it for uid {os.geteuid()} with mode 700, {other}"
        return Finding(subject=subject, status=Status.NO, finding=why, remedy=remedy)
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        return _unusable(subject, f"{path} is not a folder", f"remove it, {other}")
    if found.st_uid != os.geteuid():
        why = f"{path} belongs to uid {found.st_uid}, not to {os.geteuid()}"
        return _unusable(subject, why, f"chown it to the account of the agent, {other}")
    if mode & 0o022:
        why = f"{path} has mode {mode:o}: other accounts can write in it"
        return _unusable(subject, why, f"chmod go-w {path}")
    if not may(path, os.W_OK):
        return _unusable(subject, f"this account cannot write {path}", f"make it writable, {other}")
    if why := unsafe_parent(path):
        return _unusable(subject, f"{path}: {why}", f"change that folder, {other}")
    return Finding(subject=subject, status=Status.OK, finding=f"{path} can be used")


def keeper() -> Finding:
    """Return whether the program that starts jobs can be executed."""
    if why := KeeperSource().fault():
        remedy = "pip install ./runtime_shims; or run scripts/build_shims in a checkout"
        return _unusable("keeper", f"{why}; the agent starts no job", remedy)
    return Finding(subject="keeper", status=Status.OK, finding="can be executed")


def shim(config: Config) -> list[Finding]:
    """Return whether OpenMP jobs can be resized from inside."""
    if not config.omp_shim:
        return [
            Finding(
                subject="shim",
                status=Status.LIMITED,
                finding="no library: OpenMP teams keep their size when the cores of a job change",
                remedy="pip install ./runtime_shims; or run scripts/build_shims and set omp_shim",
            )
        ]
    return [_library(Path(config.omp_shim)), _libzmq()]


def slurm(config: Config) -> list[Finding]:
    """Return whether steps of Slurm can be adopted; nothing if the agent does not adopt."""
    if not config.adopt_slurm:
        return []
    subject = "jobs of Slurm"
    try:
        found = cpuset_here(config.cgroup_root)
    except OSError:
        found = None
    if os.geteuid() != 0:
        return [_unusable(subject, "only root can confine them", "run the agent as root")]
    if found is None:
        why = f"{config.cgroup_root} has no cpuset controller, so Slurm cannot confine them"
        return [_unusable(subject, why, "enable the cpuset controller and task/cgroup in Slurm")]
    text = "can be adopted if Slurm uses task/cgroup with ConstrainCores=yes"
    return [Finding(subject=subject, status=Status.OK, finding=text)]


def group_usable(controller: Path, *, v2: bool) -> bool:
    """Whether this account may create groups below a controller, as far as visible."""
    base = controller / _GROUP if (controller / _GROUP).is_dir() else controller
    return may(base, os.W_OK) and (not v2 or may(base / "cgroup.subtree_control", os.W_OK))


def _library(path: Path) -> Finding:
    try:
        with path.open("rb") as file:
            elf = file.read(len(_ELF)) == _ELF
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}"
        return _unusable("shim", why, "make it readable for the accounts of jobs")
    if not elf:
        return _unusable("shim", f"{path} is not a library", "build it with scripts/build_shims")
    return Finding(subject="shim", status=Status.OK, finding=f"{path} is a library")


def _libzmq() -> Finding:
    try:
        ctypes.CDLL(_LIBZMQ)
    except OSError as error:
        why = f"{_LIBZMQ} cannot be loaded: {error}"
        return _unusable("libzmq", why, "install libzmq (package libzmq5 or zeromq)")
    return Finding(subject="libzmq", status=Status.OK, finding=f"{_LIBZMQ} can be loaded")


def _no_cgroup(wanted: str, why: str, remedy: str) -> Finding:
    if wanted == "cgroup":
        return _masks(Status.NO, f"masks = cgroup, but {why}", remedy)
    return _masks(
        Status.LIMITED, f"by the affinity of every thread, which jobs can change: {why}", remedy
    )


def _masks(status: Status, finding: str, remedy: str = "") -> Finding:
    return Finding(subject="core masks", status=status, finding=finding, remedy=remedy)


def _unusable(subject: str, why: str, remedy: str) -> Finding:
    return Finding(subject=subject, status=Status.NO, finding=why, remedy=remedy)
