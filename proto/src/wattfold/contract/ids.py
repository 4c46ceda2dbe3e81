"""Identifiers shared by coordinator, agents and shims: distinct types, strings on the wire."""

from __future__ import annotations

import re
from typing import NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)
Epoch = NewType("Epoch", int)
"""Generation of the coordinator. An agent refuses commands of a lower generation (fencing)."""
EPOCH_MAX = Epoch(2**63 - 1)
"""Upper limit of epochs. No start reaches it, so a message with a higher epoch is invalid."""
ZoneName = NewType("ZoneName", str)
"""A power zone of a node by its role: ``package-0``, ``dram-0``, ``gpu-0``. Never a sysfs index."""

JOB_NAME_MAX = 100

_TASK = re.compile(r"([1-9]\d{0,11})_(0|[1-9]\d{0,8})", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def valid_name(text: str) -> bool:
    """Whether a text may name a node or an application: 1-63 of ``A-Z a-z 0-9 . _ -``."""
    return _NAME.match(text) is not None


def valid_job_name(text: str) -> bool:
    """Whether a text may name a job: 1-100 printable characters of any script."""
    return 0 < len(text) <= JOB_NAME_MAX and text.isprintable()


def task_of(job_id: str) -> tuple[JobId, int] | None:
    """Return the array ID and the index of a task; None for other IDs."""
    match = _TASK.fullmatch(job_id)
    return (JobId(match[1]), int(match[2])) if match else None


def array_of(job_id: str) -> JobId:
    """Return the array ID of a task; empty for other IDs."""
    found = task_of(job_id)
    return found[0] if found else JobId("")
