"""Ranks: the confirmed state of the process of a job on each of its nodes, and its end."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.attempt import Saving


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How the process of a job on one node ended, and what it used.

    ``core_ns`` is the integral of held cores over time. ``energy_uj`` excludes the idle share of
    its energy and the energy of its GPUs.
    """

    exit_code: int
    cpu_ns: int
    energy_uj: int
    lost: bool = False
    message: str = ""
    residual_cpu_ns: int = 0
    core_ns: int = 0
    idle_energy_uj: int = 0
    saving: Saving = Saving.UNKNOWN
    snapshot_bytes: int = 0
    gpu_energy_uj: int = 0


@dataclass(slots=True, kw_only=True)
class Rank:
    """Confirmed state of the process of a job on one node.

    ``held`` are the cores that it may run on, ``moving_to`` the cores of a pending mask change.
    ``launching`` and ``running`` exclude each other, and both are false after the end. After a
    failed command no other command is sent before ``retry_ns``.
    """

    node_id: NodeId
    held: CpuSet
    moving_to: CpuSet | None = None
    launching: bool = False
    running: bool = False
    pid: int = 0
    confined: bool = False
    signalled: bool = False
    orders: int = 0
    """Number of orders sent to its agent to end it. Answers may be lost, so orders repeat."""
    retry_ns: int = 0
    end: RankEnd | None = None
    stopped: bool = False
    """Whether its processes are suspended, by the last confirmation; ``stopping``: pending."""
    stopping: bool = False
    launch_cpus: int = 0
    """Maximum number of cores that it was started for; 0 = unknown, from an earlier version."""
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    resident: bool = False
    """Whether the job holds no core on this node, as confirmed last. Only for jobs with a reach."""
    unsure: bool = False
    """Whether it is unconfirmed that no other job uses ``held``. Only for jobs with a reach."""
    pe_map: bytes = b""
    """Processor map of the first rank, as started or confirmed last; empty = unknown."""
    adopted: bool = False
    """Whether the agent can resize it. Only for jobs of a resource manager."""
    spent: RankEnd | None = None
    """Usage of its ended steps, until the job ends. Only for jobs of a resource manager."""

    @property
    def occupied(self) -> CpuSet:
        """All cores that it may use before the next confirmation."""
        if self.end is not None:
            return CpuSet()
        return self.held if self.moving_to is None else self.held | self.moving_to
