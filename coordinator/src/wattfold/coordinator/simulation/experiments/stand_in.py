"""What a paper leaves open, and what stands for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """One thing the text leaves open."""

    name: str
    value: str
    why: str
    option: str = ""
    """The option of the command that changes it."""
