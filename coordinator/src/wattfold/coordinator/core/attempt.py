"""One start of a job that did not become its end, and what is to follow the present one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import NodeId

ATTEMPTS_MAX = 100
"""A job is started no more often than this: its earlier attempts are kept, and shown."""


class Saving(enum.Enum):
    """What a process that was told to save and to end has done about it, as its agent saw."""

    UNKNOWN = "unknown"
    """Of an agent of an earlier version."""
    UNASKED = "unasked"
    """It had ended before it could be told."""
    SAVED = "saved"
    """Something in the folder of the snapshot is another than before."""
    UNSAVED = "unsaved"
    KILLED = "killed"
    """It had not ended within its grace time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A start of a job that has ended, with what its processes used.

    ``started_ns`` is -1 where it never ran on all of its nodes. ``lost``: by the loss of a node or
    of a process, not on request.
    """

    number: int
    nodes: tuple[NodeId, ...]
    started_ns: int
    ended_ns: int
    why: str
    lost: bool = False
    resized: bool = False
    """Ended to go on at another size, or elsewhere."""
    cpu_ns: int = 0
    core_ns: int = 0
    energy_uj: int = 0
    idle_energy_uj: int = 0
    residual_cpu_ns: int = 0
    gpu_energy_uj: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """An order to end the attempt of a job and to put the job back into the queue.

    ``signal`` 0 is SIGTERM, ``grace_ns`` 0 the usual grace time; ``held``: until it is released.
    """

    why: str
    signal: int = 0
    grace_ns: int = 0
    held: bool = False
