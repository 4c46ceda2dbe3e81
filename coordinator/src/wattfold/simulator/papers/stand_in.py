"""Assumption for a detail that a paper leaves open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """An assumption for an open detail."""

    name: str
    value: str
    why: str
    option: str = ""
    """Option of the command that changes it."""
