"""Announced budgets: the budget in force at a time, and the limit on committed power before it.

A lower budget must hold *at* its time. So committed power is at most the lower budget from a lead
before that time on. The lead is the time for which caps may stay up on a node that falls silent.
The limit at a time is the minimum of the budget in force and of the budgets within the lead. A
higher budget applies from its own time on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

ANNOUNCED_MAX = 256
"""Maximum number of announced budgets of a site: all of them are in every snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A budget in force from ``at_ns`` on, in coordinator time. ``number`` identifies it."""

    number: int
    at_ns: int
    budget_uw: int


class Limit(NamedTuple):
    """Limit on committed power from a time on."""

    from_ns: int
    limit_uw: int


def coming_uw(announced: Sequence[Announced], now_ns: int, lead_ns: int) -> int:
    """Return the smallest budget that starts within the lead, in microwatts; 0 = no budget does."""
    near = [one.budget_uw for one in announced if now_ns < one.at_ns <= now_ns + lead_ns]
    return min(near, default=0)


def limits(
    announced: Sequence[Announced], budget_uw: int, now_ns: int, lead_ns: int
) -> list[Limit]:
    """Return the changes of the limit on committed power after now, ordered by time.

    All of ``announced`` start after now, in order of time; ``budget_uw`` is in force now.
    """
    times = {one.at_ns for one in announced} | {one.at_ns - lead_ns for one in announced}
    found: list[Limit] = []
    before_uw = _limit_uw(announced, budget_uw, now_ns, lead_ns)
    for at_ns in sorted(time for time in times if time > now_ns):
        limit_uw = _limit_uw(announced, budget_uw, at_ns, lead_ns)
        if limit_uw != before_uw:
            found.append(Limit(at_ns, limit_uw))
        before_uw = limit_uw
    return found


def _limit_uw(announced: Sequence[Announced], budget_uw: int, at_ns: int, lead_ns: int) -> int:
    for one in announced:
        if one.at_ns <= at_ns:
            budget_uw = one.budget_uw
    return min(budget_uw, coming_uw(announced, at_ns, lead_ns) or budget_uw)
