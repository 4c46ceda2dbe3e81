"""Attempts: starts of a job that ended before the job did, and the order that ends an attempt."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import NodeId

ATTEMPTS_MAX = 100
"""Maximum number of starts of a job: its earlier attempts are stored and shown."""


class Saving(enum.Enum):
    """Result of a request to save a snapshot and exit, as observed by the agent."""

    UNKNOWN = "unknown"
    """Reported by an agent of an earlier version."""
    UNASKED = "unasked"
    """The process ended before the request."""
    SAVED = "saved"
    """A file in the snapshot folder changed."""
    UNSAVED = "unsaved"
    KILLED = "killed"
    """The process did not end within its grace time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A start of a job that has ended, with the resources that its processes used.

    ``started_ns`` is -1 if the attempt never ran on all of its nodes. ``lost``: a node or process
    was lost, and no user ended the attempt. ``failed``: the program failed.
    """

    number: int
    nodes: tuple[NodeId, ...]
    started_ns: int
    ended_ns: int
    why: str
    lost: bool = False
    failed: bool = False
    epochs_saved: int = 0
    """Number of epochs in the snapshot at that time, for a training job."""
    resized: bool = False
    """Whether the attempt ended for a restart at another size or on other nodes."""
    cpu_ns: int = 0
    core_ns: int = 0
    energy_uj: int = 0
    idle_energy_uj: int = 0
    residual_cpu_ns: int = 0
    gpu_energy_uj: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """An order to end the attempt of a job and to requeue the job.

    ``signal`` 0 is SIGTERM, ``grace_ns`` 0 the default grace time. ``held``: the job waits for a
    release.
    """

    why: str
    signal: int = 0
    grace_ns: int = 0
    held: bool = False
