"""Launch of a job: the checked request, and the environment of its process."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wattfold.contract.command_digest import command_digest
from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, valid_name
from wattfold.contract.soft_limits import UMASK_DEFAULT, SoftLimit, refusal
from wattfold.contract.step_protocol import KEY_BYTES
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState
from wattfold.nodeagent.core.gpus import STRANGE
from wattfold.nodeagent.core.steps import StepNode, StepSetting, step_environment
from wattfold.nodeagent.core.tasks import RANK_VARIABLES, TASKS_MAX, share_of

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARGUMENT_BYTES_MAX = 512 * 1024
UNBOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",  # Open MPI up to 4
    "PRTE_MCA_hwloc_default_binding_policy": "none",  # PRRTE, with Open MPI from 5
    "HYDRA_BINDING": "none",  # MPICH
    "I_MPI_PIN": "off",  # Intel MPI
    "MV2_ENABLE_AFFINITY": "0",  # MVAPICH2
    "SLURM_CPU_BIND": "none",
    # A job has a core for every rank, but these launchers count physical cores, once, at the start.
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""Launchers leave the binding of ranks to the agent, unless the user sets otherwise."""


class ResizeMode(enum.Enum):
    """How a job may be resized. The values are those of WATTFOLD_RESIZE_MODE."""

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
    """Mode map: the map for ``cpus``; empty = the agent determines it."""
    steps_only: bool = False
    """The program starts on another node. Here a step host runs instead of argv."""
    step_nodes: tuple[StepNode, ...] = ()
    """Nodes of a job that starts its steps itself, in the order of their ranks."""
    step_key: bytes = field(default=b"", repr=False)
    memory_bytes: int = 0
    """Memory limit on this node; 0 = no limit."""
    gpus: tuple[str, ...] = ()
    """GPUs of this node that belong to the job."""
    uid: int | None = None
    """The UID that ``user`` must have on this node; None = unknown."""
    umask: int = UMASK_DEFAULT
    limits: tuple[SoftLimit, ...] = ()
    attempt: int = 1
    snapshot_dir: str = ""
    """Folder of the job's snapshot, relative to ``cwd`` or absolute; empty = none."""
    resident: bool = False
    """The job holds no core here. ``cpus``, which other jobs may hold, are for its remaining work.
    """
    pes: int = 0
    """Mode map over several nodes: PEs of the program on all nodes; 0 = ``launch_cpus``."""
    epochs: int = 0
    """Number of all epochs of a training job; 0 = not a training job."""

    @property
    def command_digest(self) -> str:
        """Digest that distinguishes the job from another job with the same number."""
        return command_digest(self.argv, self.cwd, self.user)

    @property
    def snapshot_path(self) -> str:
        """Absolute path of its snapshot folder; empty = none."""
        if not self.snapshot_dir or self.snapshot_dir.startswith("/"):
            return self.snapshot_dir
        return f"{self.cwd.rstrip('/')}/{self.snapshot_dir}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimSetting:
    """How a job reaches its shim: the library to preload (empty = none) and the endpoint."""

    library: str
    endpoint: str


def check_order(order: LaunchOrder) -> None:
    """Raise InvalidRequest for errors that do not depend on the state of the node."""
    if not valid_name(order.job):
        raise InvalidRequest(
            f"job id {order.job!r} is not a name: expected 1-63 characters of A-Z a-z 0-9 . _ -"
        )
    if not order.argv or not order.argv[0]:
        raise InvalidRequest(f"job {order.job}: the command is empty")
    if not order.cwd.startswith("/"):
        raise InvalidRequest(f"job {order.job}: cwd {order.cwd!r} is not an absolute path")
    texts = [*order.argv, *order.env.keys(), *order.env.values(), order.cwd, order.snapshot_dir]
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
    if not 1 <= order.tasks_per_node <= TASKS_MAX:
        raise InvalidRequest(
            f"job {order.job}: {order.tasks_per_node} tasks per node are outside 1..{TASKS_MAX}"
        )
    if order.resident and not order.steps_only:
        raise InvalidRequest(f"job {order.job}: the node that starts its program must hold cores")
    wrong = refusal(order.umask, order.limits)
    if wrong:
        raise InvalidRequest(f"job {order.job}: {wrong}")
    if order.ranks and order.rank >= order.ranks:
        raise InvalidRequest(
            f"job {order.job}: rank {order.rank} is outside the {order.ranks} ranks"
        )
    check_steps(order)


def check_steps(order: LaunchOrder) -> None:
    """Raise InvalidRequest for steps that could never be started."""
    if not order.step_nodes:
        if order.steps_only:
            raise InvalidRequest(f"job {order.job}: steps_only without the names of the nodes")
        return
    if len(order.step_key) != KEY_BYTES:
        raise InvalidRequest(
            f"job {order.job}: its step key has {len(order.step_key)} bytes, not {KEY_BYTES}"
        )
    if order.rank >= len(order.step_nodes):
        raise InvalidRequest(
            f"job {order.job}: rank {order.rank} is outside the"
            f" {len(order.step_nodes)} nodes with steps"
        )
    names = [node.node_id for node in order.step_nodes]
    if not all(valid_name(name) for name in names) or len(set(names)) < len(names):
        raise InvalidRequest(
            f"job {order.job}: its node names {', '.join(names)} are invalid or not unique"
        )
    deaf = [node.node_id for node in order.step_nodes[1:] if not node.address]
    if deaf:
        raise InvalidRequest(
            f"job {order.job}: its launcher starts the processes, but node {deaf[0]} accepts no"
            " steps; set steps_listen of its agent"
        )
    if any(set(node.address) & set(" \t\r\n") for node in order.step_nodes):
        raise InvalidRequest(f"job {order.job}: the address of a node contains a space")


def check_gpus(
    order: LaunchOrder, there: Sequence[str], held: Mapping[JobId, Sequence[str]]
) -> None:
    """Raise InvalidRequest for GPUs that the node lacks, WrongState for GPUs of another job."""
    if len(set(order.gpus)) < len(order.gpus):
        raise InvalidRequest(f"job {order.job}: a GPU is named twice: {', '.join(order.gpus)}")
    for gpu in order.gpus:
        if gpu not in there:
            has = ", ".join(there) or "none"
            raise InvalidRequest(f"job {order.job}: this node has no GPU {gpu!r}; it has: {has}")
        owner = next((job for job, gpus in held.items() if gpu in gpus), None)
        if owner is not None:
            raise WrongState(f"job {order.job}: GPU {gpu} is held by job {owner}")


def job_environment(
    order: LaunchOrder,
    shim: ShimSetting,
    steps: StepSetting | None = None,
    gpus: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of the job: the request's, completed with the agent's variables.

    ``steps`` is for jobs that start their steps themselves. ``gpus``: variables that name the job's
    GPUs.
    """
    given = dict(order.env)
    given.pop("WATTFOLD_SNAPSHOT_DIR", "")
    given.pop("WATTFOLD_EPOCHS", "")
    outer = given.pop("WATTFOLD_STEPS", "")
    if outer:
        # The job was submitted from inside another job, whose files it must not use.
        given = {name: value for name, value in given.items() if not value.startswith(outer)}
    if gpus:
        given = {name: value for name, value in given.items() if name not in STRANGE}
    launcher = step_environment(order.step_nodes, steps, first=not order.steps_only)
    threads = share_of(order.launch_cpus, order.tasks_per_node)
    env = {
        "PATH": DEFAULT_PATH,
        **launcher.defaults,
        # A Charm++ program has a process or thread of its own for each core.
        **runtime_environment(order.mode, 1 if order.mode is ResizeMode.MAP else threads, given),
        **(UNBOUND if order.tasks_per_node > 1 else {}),
        **given,
        **launcher.facts,
        "WATTFOLD_JOB_ID": order.job,
        "WATTFOLD_RESIZE_MODE": order.mode.value,
        "WATTFOLD_LAUNCH_CPUS": str(threads),
        **({"WATTFOLD_PES": str(order.pes)} if order.pes else {}),
        "WATTFOLD_ATTEMPT": str(order.attempt),
        "WATTFOLD_RANK": str(order.rank),
        "WATTFOLD_RANKS": str(max(1, order.ranks)),
        "WATTFOLD_TASKS": str(order.tasks_per_node),
        "WATTFOLD_SHIM_ENDPOINT": shim.endpoint,
        **(gpus or {}),
    }
    if order.snapshot_path:
        env["WATTFOLD_SNAPSHOT_DIR"] = order.snapshot_path
    if order.epochs:
        env["WATTFOLD_EPOCHS"] = str(order.epochs)
    if order.tasks_per_node > 1:
        # Rank variables of the parallel program that submitted this job do not apply here.
        env = {name: value for name, value in env.items() if name not in RANK_VARIABLES}
    if shim.library and order.mode is not ResizeMode.FIXED:
        env["LD_PRELOAD"] = ":".join(filter(None, [shim.library, env.get("LD_PRELOAD", "")]))
    return env


def runtime_environment(mode: ResizeMode, threads: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return variables for OpenMP runtimes; ``given`` are the user's variables, unchanged."""
    ours = {"OMP_NUM_THREADS": str(threads), **_spinning(mode, given), **_affinity(mode, given)}
    return {name: value for name, value in ours.items() if name not in given}


IDLE_SPIN_MS = 1
_WAITING = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_LIBRARY")
_BINDING = ("OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def _spinning(mode: ResizeMode, given: Mapping[str, str]) -> dict[str, str]:
    """Return variables against spinning threads, which hold a core that the job has lost.

    In team mode, threads of libgomp end with the team. Threads of LLVM's and Intel's runtime must
    not spin for the usual 200 ms.
    """
    if mode is not ResizeMode.TEAM:
        return {"OMP_WAIT_POLICY": "passive"}
    return {} if any(given.get(n) for n in _WAITING) else {"KMP_BLOCKTIME": str(IDLE_SPIN_MS)}


def _affinity(mode: ResizeMode, given: Mapping[str, str]) -> dict[str, str]:
    """Return variables that stop LLVM's and Intel's runtime from binding to the first cores.

    The runtime would leave new threads there when the job grows, and abort the program when the job
    has lost all of these cores.
    """
    bound = given.get("OMP_PROC_BIND", "").lower() not in ("", "false")
    if mode not in (ResizeMode.MASK, ResizeMode.TEAM) or bound or any(map(given.get, _BINDING)):
        return {}
    return {"KMP_AFFINITY": "disabled"}
