"""What can go wrong in a simulated cluster: with one message, or with a node at a given time."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId

DELAY_NS_MIN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities of what can go wrong with one command, and the longest delay of a message."""

    lose: float = 0.0
    """The command, and likewise its answer, does not arrive."""
    late: float = 0.0
    """The command arrives after its sender gave it up."""
    double: float = 0.0
    """The command arrives twice."""
    refuse: float = 0.0
    """A zone does not take a cap and says so."""
    delay_ns: int = 5_000_000

    def __post_init__(self) -> None:
        for name in ("lose", "late", "double", "refuse"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, got {getattr(self, name)}")
        if self.delay_ns < DELAY_NS_MIN:
            raise ValueError(f"a message takes at least {DELAY_NS_MIN} ns, got {self.delay_ns}")


class IncidentKind(enum.Enum):
    """What happens to a part of the cluster."""

    CUT = "cut"
    """The network to a node is down for a while; agent and jobs go on."""
    KILL_AGENT = "kill-agent"
    """The agent of a node dies and is started again; its jobs go on."""
    STOP_AGENT = "stop-agent"
    """The agent of a node is stopped in an orderly way and started again; its jobs go on."""
    KILL_COORDINATOR = "kill-coordinator"
    """The coordinator dies with all that is under way and comes back from its journal."""
    KILL_JOB = "kill-job"
    """The process of a job on one node dies with an exit code of 137."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault at a time of the log. ``for_ns`` is how long it lasts."""

    time_ns: int
    kind: IncidentKind
    node_id: NodeId = NodeId("")  # noqa: RUF009 - a string
    job_id: JobId = JobId("")  # noqa: RUF009 - a string
    for_ns: int = 0
