"""What a job is started with: the checked request and the environment of its process."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, valid_name
from wattfold.contract.step_protocol import KEY_BYTES
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.steps import StepNode, StepSetting, step_environment

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
    steps_only: bool = False
    """The program starts on another node: a step host runs here in place of argv."""
    step_nodes: tuple[StepNode, ...] = ()
    """Nodes of a job that starts its steps itself, in the order of their ranks."""
    step_key: bytes = field(default=b"", repr=False)


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
    check_steps(order)


def check_steps(order: LaunchOrder) -> None:
    """Raises InvalidRequest for steps that could never be started."""
    if not order.step_nodes:
        if order.steps_only:
            raise InvalidRequest(f"job {order.job}: steps only, but the nodes are not named")
        return
    if len(order.step_key) != KEY_BYTES:
        raise InvalidRequest(
            f"job {order.job}: its step key has {len(order.step_key)} bytes, not {KEY_BYTES}"
        )
    if order.rank >= len(order.step_nodes):
        raise InvalidRequest(
            f"job {order.job}: rank {order.rank} of {len(order.step_nodes)} nodes with steps"
        )
    names = [node.node_id for node in order.step_nodes]
    if not all(valid_name(name) for name in names) or len(set(names)) < len(names):
        raise InvalidRequest(f"job {order.job}: its nodes {', '.join(names)} are not unlike names")
    deaf = [node.node_id for node in order.step_nodes[1:] if not node.address]
    if deaf:
        raise InvalidRequest(
            f"job {order.job}: it starts its processes itself, and node {deaf[0]} takes no steps"
            " (steps_listen of its agent)"
        )
    if any(set(node.address) & set(" \t\r\n") for node in order.step_nodes):
        raise InvalidRequest(f"job {order.job}: an address of its nodes has a space in it")


def job_environment(
    order: LaunchOrder, shim: ShimSetting, steps: StepSetting | None = None
) -> dict[str, str]:
    """The environment of the job: what the request gives, completed by what the agent knows.

    ``steps`` of a job that starts its steps itself.
    """
    given = dict(order.env)
    outer = given.pop("WATTFOLD_STEPS", "")
    if outer:
        # Submitted from inside of another job: its files are not those of this one.
        given = {name: value for name, value in given.items() if not value.startswith(outer)}
    launcher = step_environment(order.step_nodes, steps, first=not order.steps_only)
    env = {
        "PATH": DEFAULT_PATH,
        **launcher.defaults,
        # A Charm++ program has as many processes, or threads of its own.
        "OMP_NUM_THREADS": "1" if order.mode is ResizeMode.MAP else str(order.launch_cpus),
        # Spinning threads hold a core the job has lost.
        "OMP_WAIT_POLICY": "passive",
        **given,
        **launcher.facts,
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
