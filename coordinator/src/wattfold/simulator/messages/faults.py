"""Faults of a simulated cluster: of one message, or of a node at a given time."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId

DELAY_NS_MIN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities of faults of one command, and the maximum delay of a message."""

    lose: float = 0.0
    """The command does not arrive, and likewise its answer."""
    late: float = 0.0
    """The command arrives after its sender has given it up."""
    double: float = 0.0
    """The command arrives twice."""
    refuse: float = 0.0
    """A zone refuses a cap and reports it."""
    delay_ns: int = 5_000_000
    switch_fails: float = 0.0
    """A program that switches the power of a node fails."""
    boot_late: float = 0.0
    """A node reports after the time limit of its boot."""
    boot_fails: float = 0.0
    """A node never reports after its start."""

    def __post_init__(self) -> None:
        for name in (
            *("lose", "late", "double", "refuse"),
            *("switch_fails", "boot_late", "boot_fails"),
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, got {getattr(self, name)}")
        if self.delay_ns < DELAY_NS_MIN:
            raise ValueError(f"a message takes at least {DELAY_NS_MIN} ns, got {self.delay_ns}")


class IncidentKind(enum.Enum):
    """Fault of a part of the cluster."""

    CUT = "cut"
    """The network to a node is down for a while; agent and jobs continue."""
    KILL_AGENT = "kill-agent"
    """The agent of a node dies and is restarted; its jobs continue."""
    STOP_AGENT = "stop-agent"
    """The agent of a node is stopped cleanly and restarted; its jobs continue."""
    KILL_COORDINATOR = "kill-coordinator"
    """The coordinator dies, commands in flight are lost, and it restarts from its journal."""
    FULL_DISK = "full-disk"
    """A node cannot start jobs for a while; its running jobs continue."""
    KILL_JOB = "kill-job"
    """The process of a job on one node dies with exit code 137."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault at a time of the log. ``for_ns`` is its duration."""

    time_ns: int
    kind: IncidentKind
    node_id: NodeId = NodeId("")  # noqa: RUF009 - a string
    job_id: JobId = JobId("")  # noqa: RUF009 - a string
    for_ns: int = 0
