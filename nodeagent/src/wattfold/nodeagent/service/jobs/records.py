"""State of a job on this node, and its form on disk."""

from __future__ import annotations

import asyncio
import enum
import os
from collections import Counter
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

from wattfold.contract.cpuset import MAX_CPU, CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.processor_map import digits, parse_digits
from wattfold.nodeagent.adapters.jobs.processes import Watch
from wattfold.nodeagent.core.epoch_report import EpochReport
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.core.residual import ResidualMeter
from wattfold.nodeagent.core.tasks import TASKS_MAX
from wattfold.nodeagent.service.jobs.charm_program import Processor
from wattfold.nodeagent.service.jobs.slurm_steps import SlurmStep

SEQ_STEP = 1000
"""Sequence numbers are reserved on disk in steps, so that few resizes write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Last verified state of the processor map of a job of mode map.

    ``up``: its program accepts requests. ``map``: in force; empty = unknown. ``message``: why that
    is not the requested map.
    """

    up: bool = False
    map: bytes = b""
    applied: bool = False
    message: str = ""
    processors: tuple[Processor, ...] = ()
    surplus: int = 0

    def same_state(self, other: Placement) -> bool:
        """Whether two placements differ only in their processors, which always change."""
        return replace(self, processors=()) == replace(other, processors=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellHost:
    """The step host for the shells of a job and its keeper, with the times they started."""

    pid: int
    pid_ticks: int
    keeper: int
    keeper_ticks: int


class JobState(enum.Enum):
    """State of the process of a job."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Saving(enum.Enum):
    """Result of a request to save a snapshot."""

    UNASKED = "unasked"
    SAVED = "saved"
    """Also if it is unknown."""
    UNSAVED = "unsaved"
    KILLED = "killed"


@dataclass(slots=True, kw_only=True)
class Job:
    """A job of this node. ``held`` contains ``cpus``, and during a change also the old cores."""

    id: JobId
    state: JobState
    cpus: CpuSet
    held: CpuSet
    mode: ResizeMode
    launch_cpus: int
    # Mode map over several nodes: its PEs on all nodes. ``steps_only``: its program starts on
    # another node, and this is a step host. ``resident``: it holds no core here, and its processes
    # use cores that others may hold.
    pes: int = 0
    steps_only: bool = False
    resident: bool = False
    berth: CpuSet = field(default_factory=CpuSet)
    attempt: int = 1
    suspended: bool = False
    uid: int = field(default_factory=os.geteuid)
    # Empty in a record of an earlier version.
    command_digest: str = ""
    # Cores of each task within ``cpus``, and the cores that its threads may use, which during a
    # change include the old cores. Empty for a job with one task.
    tasks_per_node: int = 1
    division: tuple[CpuSet, ...] = ()
    allowed: tuple[CpuSet, ...] = ()
    # The first mask that a shim receives has number 1.
    seq: int = 1
    seq_reserved: int = SEQ_STEP
    pid: int = 0
    pid_ticks: int = 0
    keeper: int = 0
    keeper_ticks: int = 0
    started_ns: int = 0
    boot_id: str = ""
    exit_code: int = 0
    signal: int = 0
    ended_ns: int = 0
    cpu_ns: int = 0
    # Energy above idle, by CPU time used; the idle share, by cores and time held.
    energy_uj: int = 0
    idle_energy_uj: int = 0
    # Cores held times time, up to ``held_since_ns``.
    core_ns: int = 0
    held_since_ns: int = 0
    message: str = ""
    residual: ResidualMeter = field(default_factory=ResidualMeter)
    excess_runnable_ns: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    memory_bytes_max: int = 0
    # Only of this run of the agent.
    threads: int = 0
    runnable: int = 0
    tasks_found: int = 0
    memory_bytes: int = 0
    confined: bool = False
    # Processes that were alive at the last count after the end of the first process.
    left: int = 0
    # Masks by affinity: the last cores of threads outside the mask, and the number of repairs.
    strays: CpuSet = field(default_factory=CpuSet)
    stray_repairs: int = 0
    # Mode map: the requested map, one byte per PE, and its verified state.
    wanted_map: bytes = b""
    placement: Placement = field(default_factory=Placement)
    # Memory limit here, 0 = no limit; its own GPUs; whether it was ended for its memory.
    memory_limit_bytes: int = 0
    gpus: tuple[str, ...] = ()
    # Energy of each GPU since the job holds it.
    gpu_used_uj: dict[str, int] = field(default_factory=dict)
    over_memory: bool = False
    # Snapshot folder; whether the job was asked to save; and the folder's digest before that.
    snapshot_path: str = ""
    asked: bool = False
    snapshot_before: str = ""
    # The job was asked to end, with or without saving, so it is no longer suspended.
    ending: bool = False
    saving: Saving = Saving.UNASKED
    snapshot_bytes: int = 0
    # Training job: number of all epochs, and the last report next to its snapshot.
    epochs: int = 0
    report: EpochReport | None = None
    # Adopted job: its owner (empty = a coordinator), its application as stated by the user, the
    # cores that the owner gave it here, its steps, and the group in which the owner counts its CPU
    # time (empty = none).
    owner: str = ""
    app: str = ""
    allocation: CpuSet = field(default_factory=CpuSet)
    steps: dict[str, SlurmStep] = field(default_factory=dict)
    cpu_group: str = ""
    # Runs the shells of its user next to its program; None = no shell was opened.
    shell_host: ShellHost | None = None
    # Of this run of the agent only: processes, with the times they started, and signals they got.
    told: set[tuple[tuple[int, int], int]] = field(default_factory=set)
    watch: Watch | None = None
    first_watch: Watch | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    map_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def live(self) -> bool:
        """Whether the job holds its cores."""
        return self.state in (JobState.STARTING, JobState.RUNNING)

    @property
    def gpu_energy_uj(self) -> int:
        """Energy of all its GPUs; not included in ``energy_uj``."""
        return sum(self.gpu_used_uj.values())

    @property
    def place(self) -> CpuSet:
        """The cores to which the kernel should confine its processes."""
        return self.berth if self.resident else self.held

    def close_watches(self) -> None:
        """Stop watching its processes."""
        watches = [step.watch for step in self.steps.values()]
        for watch in (self.watch, self.first_watch, *watches):
            if watch is not None:
                watch.close()

    def settle(self, now_ns: int) -> None:
        """Count the cores held until now. Call it before ``held`` changes."""
        if self.held_since_ns:
            self.core_ns += len(self.held) * max(0, now_ns - self.held_since_ns)
        self.held_since_ns = now_ns


def owned(job: Job) -> str:
    """Return why an order to start, signal, suspend or end an adopted job is refused."""
    return f"job {job.id} belongs to {job.owner}; start, suspend or end it there"


_PLAIN = (
    "launch_cpus",
    "seq_reserved",
    "pid",
    "pid_ticks",
    "keeper",
    "keeper_ticks",
    "started_ns",
    "boot_id",
    "exit_code",
    "signal",
    "ended_ns",
    "cpu_ns",
    "energy_uj",
)
# Missing in the records of earlier versions.
_ADDED = (
    "snapshot_bytes",
    "idle_energy_uj",
    "core_ns",
    "held_since_ns",
    "excess_runnable_ns",
    "voluntary_switches",
    "involuntary_switches",
    "memory_bytes_max",
    "memory_limit_bytes",
    "epochs",
)


def to_record(job: Job) -> dict[str, Any]:
    """Return the form on disk."""
    return {
        "uid": job.uid,
        "command_digest": job.command_digest,
        "tasks_per_node": job.tasks_per_node,
        "division": [str(cpus) for cpus in job.division],
        "attempt": job.attempt,
        "suspended": job.suspended,
        "state": job.state.value,
        "cpus": str(job.cpus),
        "mode": job.mode.value,
        "message": job.message,
        "gpus": list(job.gpus),
        "gpu_used_uj": dict(job.gpu_used_uj),
        "over_memory": job.over_memory,
        "snapshot_path": job.snapshot_path,
        "asked": job.asked,
        "ending": job.ending,
        "snapshot_before": job.snapshot_before,
        "saving": job.saving.value,
        "report": None if job.report is None else astuple(job.report),
        "processor_map": digits(job.wanted_map),
        "pes": job.pes,
        "steps_only": job.steps_only,
        "resident": job.resident,
        "berth": str(job.berth),
        "owner": job.owner,
        "app": job.app,
        "allocation": str(job.allocation),
        "steps": [step.to_record() for step in job.steps.values()],
        "cpu_group": job.cpu_group,
        "shell_host": None if job.shell_host is None else asdict(job.shell_host),
        "residual_cpu_ns": job.residual.total_ns,
        "residual_by_cpu": {str(cpu): ns for cpu, ns in job.residual.by_cpu.items()},
        **{name: getattr(job, name) for name in (*_PLAIN, *_ADDED)},
    }


_NUMBER_MAX = 2**62
_NUMBERS_MAX = {
    **dict.fromkeys(("launch_cpus", "pes", "attempt", "pid", "keeper", "epochs"), 2**31 - 1),
    **dict.fromkeys(("exit_code", "signal"), 2**31 - 1),
    "uid": 2**32 - 1,
    "cpu": MAX_CPU,
    "tasks_per_node": TASKS_MAX,
}
"""The largest numbers that the kernel and the messages hold."""


def whole(value: object, name: str = "") -> int:
    """The number of a record. Raises ValueError for what this number cannot be."""
    most, least = _NUMBERS_MAX.get(name, _NUMBER_MAX), -(2**31) if name == "exit_code" else 0
    number = int(value) if isinstance(value, str | int) else -1
    if not least <= number <= most or isinstance(value, bool):
        raise ValueError(f"{name or 'a number'} = {value!r} is not a whole number up to {most}")
    return number


def from_record(job_id: str, record: dict[str, Any]) -> Job:
    """The job of a record; sequence numbers go on above those reserved. Raises ValueError."""
    try:
        cpus = CpuSet.parse(record["cpus"])
        numbers: dict[str, Any] = {n: whole(record[n], n) for n in _PLAIN if n != "boot_id"}
        numbers |= {name: whole(record.get(name, 0), name) for name in _ADDED}
        division = tuple(CpuSet.parse(part) for part in record.get("division", ()))
        residual_ns = record.get("residual_by_cpu", {})
        by_cpu = {whole(cpu, "cpu"): whole(ns) for cpu, ns in residual_ns.items()}
        job = Job(
            id=JobId(job_id),
            state=JobState(record["state"]),
            cpus=cpus,
            held=cpus,
            mode=ResizeMode(record["mode"]),
            message=str(record["message"]),
            wanted_map=parse_digits(str(record.get("processor_map", ""))),
            boot_id=str(record["boot_id"]),
            uid=whole(record.get("uid", os.geteuid()), "uid"),
            command_digest=str(record.get("command_digest", "")),
            tasks_per_node=whole(record.get("tasks_per_node", 1), "tasks_per_node"),
            attempt=whole(record.get("attempt", 1), "attempt"),
            suspended=bool(record.get("suspended", False)),
            division=division,
            allowed=division,
            gpus=tuple(str(gpu) for gpu in record.get("gpus", ())),
            gpu_used_uj={str(g): whole(uj) for g, uj in record.get("gpu_used_uj", {}).items()},
            over_memory=bool(record.get("over_memory", False)),
            snapshot_path=str(record.get("snapshot_path", "")),
            asked=bool(record.get("asked", False)),
            ending=bool(record.get("ending", record.get("asked", False))),
            snapshot_before=str(record.get("snapshot_before", "")),
            saving=Saving(record.get("saving", Saving.UNASKED.value)),
            pes=whole(record.get("pes", 0), "pes"),
            steps_only=bool(record.get("steps_only", False)),
            resident=bool(record.get("resident", False)),
            berth=CpuSet.parse(record.get("berth", "")),
            owner=str(record.get("owner", "")),
            app=str(record.get("app", "")),
            allocation=CpuSet.parse(record.get("allocation", "")),
            steps={s.name: s for s in map(SlurmStep.of_record, record.get("steps", ()))},
            cpu_group=str(record.get("cpu_group", "")),
            shell_host=_shell_host(record.get("shell_host")),
            residual=ResidualMeter(
                total_ns=whole(record["residual_cpu_ns"]), by_cpu=Counter(by_cpu)
            ),
            report=_report(record.get("report")),
            **numbers,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a record of a job: {error!r}") from None
    job.seq = job.seq_reserved
    job.seq_reserved += SEQ_STEP
    return job


def _shell_host(told: dict[str, int] | None) -> ShellHost | None:
    if told is None:
        return None
    names = ("pid", "pid_ticks", "keeper", "keeper_ticks")
    return ShellHost(**{name: whole(told[name], name) for name in names})


def _report(told: list[int] | None) -> EpochReport | None:
    if told is None:
        return None
    epoch, epoch_ns, timed, mean_ns = map(whole, told, ("epochs", "", "epochs", ""))
    return EpochReport(epoch=epoch, epoch_ns=epoch_ns, timed=timed, mean_ns=mean_ns)
