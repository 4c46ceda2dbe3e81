"""Identities shared by coordinator, agents and shims: distinct types, strings on the wire."""

from __future__ import annotations

import re
from typing import NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)
RequestId = NewType("RequestId", str)
Epoch = NewType("Epoch", int)
"""Generation of the coordinator. An agent refuses any command of a smaller one (fencing)."""
ZoneName = NewType("ZoneName", str)
"""A power zone of a node by its role: ``package-0``, ``dram-0``, ``gpu-0``. Never a sysfs index."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def valid_name(text: str) -> bool:
    """Whether a text may name a node, a job or an application: 1-63 of ``A-Z a-z 0-9 . _ -``."""
    return _NAME.match(text) is not None
