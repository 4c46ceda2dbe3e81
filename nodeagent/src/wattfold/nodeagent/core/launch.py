"""What a job is started with: the checked request and the environment of its process."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, valid_name
from wattfold.nodeagent.core.errors import InvalidRequest

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARGUMENT_BYTES_MAX = 512 * 1024


class ResizeMode(enum.Enum):
    """How a job may be resized; the values are those of WATTFOLD_RESIZE_MODE."""

    FIXED = "fixed"
    MASK = "mask"
    TEAM = "team"
    MAP = "map"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """A request to start the process of a job on this node."""

    job: JobId
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdout_path: str
    stderr_path: str
    cpus: CpuSet
    mode: ResizeMode
    launch_cpus: int
    rank: int
    ranks: int
    user: str
    tasks_per_node: int = 1
    processor_map: bytes = b""
    """Mode map: the map that belongs to ``cpus``; empty = the agent finds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimSetting:
    """How a job reaches its shim: the library to preload (empty = none) and the endpoint."""

    library: str
    endpoint: str


def check_order(order: LaunchOrder) -> None:
    """Raises InvalidRequest for what is wrong whatever the state of the node."""
    if not valid_name(order.job):
        raise InvalidRequest(
            f"job id {order.job!r} is not a name: expected 1-63 of A-Z a-z 0-9 . _ -"
        )
    if not order.argv or not order.argv[0]:
        raise InvalidRequest(f"job {order.job}: the command is empty")
    if not order.cwd.startswith("/"):
        raise InvalidRequest(f"job {order.job}: cwd {order.cwd!r} is not an absolute path")
    texts = [*order.argv, *order.env.keys(), *order.env.values(), order.cwd]
    if any("\0" in text for text in texts):
        raise InvalidRequest(f"job {order.job}: a NUL byte in the command, environment or cwd")
    for name in order.env:
        if not name or "=" in name:
            raise InvalidRequest(f"job {order.job}: {name!r} cannot name an environment variable")
    size = sum(len(text.encode("utf-8", "surrogateescape")) + 1 for text in texts)
    if size > ARGUMENT_BYTES_MAX:
        raise InvalidRequest(
            f"job {order.job}: command and environment take {size} bytes, more than"
            f" {ARGUMENT_BYTES_MAX}"
        )
    if len(order.cpus) > order.launch_cpus:
        raise InvalidRequest(
            f"job {order.job}: mask {order.cpus} has {len(order.cpus)} CPUs, more than"
            f" launch_cpus {order.launch_cpus}"
        )
    if order.ranks and order.rank >= order.ranks:
        raise InvalidRequest(f"job {order.job}: rank {order.rank} of {order.ranks} ranks")


def job_environment(order: LaunchOrder, shim: ShimSetting) -> dict[str, str]:
    """The environment of the job: what the request gives, completed by what the agent knows."""
    env = {
        "PATH": DEFAULT_PATH,
        # A Charm++ program has as many processes, or threads of its own.
        "OMP_NUM_THREADS": "1" if order.mode is ResizeMode.MAP else str(order.launch_cpus),
        # Spinning threads hold a core the job has lost.
        "OMP_WAIT_POLICY": "passive",
        **order.env,
        "WATTFOLD_JOB_ID": order.job,
        "WATTFOLD_RESIZE_MODE": order.mode.value,
        "WATTFOLD_LAUNCH_CPUS": str(order.launch_cpus),
        "WATTFOLD_RANK": str(order.rank),
        "WATTFOLD_RANKS": str(max(1, order.ranks)),
        "WATTFOLD_SHIM_ENDPOINT": shim.endpoint,
    }
    if shim.library and order.mode is not ResizeMode.FIXED:
        env["LD_PRELOAD"] = ":".join(filter(None, [shim.library, env.get("LD_PRELOAD", "")]))
    return env
