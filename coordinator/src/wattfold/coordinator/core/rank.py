"""Ranks: the process of a job on each of its nodes, as far as is confirmed, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.attempt import Saving


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How the process of a job on one node ended, and what it used.

    ``core_ns`` are cores held times time; the idle share of its energy, and that of its GPUs, is
    not in ``energy_uj``.
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
    """The process of a job on one node, as far as is confirmed.

    ``held`` are the cores it may be running on, ``moving_to`` the ones of a mask change under way.
    ``launching`` and ``running`` exclude each other; neither after the end. After a failed command
    nothing more is tried before ``retry_ns``.
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
    """Times its agent was told to end it, as answers may be lost."""
    retry_ns: int = 0
    end: RankEnd | None = None
    stopped: bool = False
    """Its processes are, as was confirmed last; ``stopping``: a command about that is under way."""
    stopping: bool = False
    launch_cpus: int = 0
    """The most cores it was started for; 0 = not known, from an earlier version."""
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    resident: bool = False
    """Of a job with a reach: it holds no core here, as far as was confirmed."""
    unsure: bool = False
    """Likewise: whether it has the cores of ``held`` to itself is not confirmed."""
    pe_map: bytes = b""
    """Of its first rank: the processor map it was started with or that was confirmed last; empty =
    which one is in force is not known."""

    @property
    def occupied(self) -> CpuSet:
        """Every core it may use before the next confirmation."""
        if self.end is not None:
            return CpuSet()
        return self.held if self.moving_to is None else self.held | self.moving_to
