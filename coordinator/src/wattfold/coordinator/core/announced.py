"""Budgets that are announced: what is in force when, and what may be committed to before.

A fall is kept *at* its time: no more than the lower budget is committed to from a lead before it
on. The lead is how long the caps of a node may stay up that falls silent at that moment. So what
may be committed to at a time is the least of the budget in force then and of those that come
within the lead; a rise holds from its own time on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

ANNOUNCED_MAX = 256
"""A site has no more budgets to come at a time: all of them are in every snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A budget in force from ``at_ns`` on, in coordinator time; ``number`` is what it is called."""

    number: int
    at_ns: int
    budget_uw: int


class Limit(NamedTuple):
    """So much may be committed to from a time on."""

    from_ns: int
    limit_uw: int


def coming_uw(announced: Sequence[Announced], now_ns: int, lead_ns: int) -> int:
    """The least budget that comes within the lead, microwatts; 0 = none does."""
    near = [one.budget_uw for one in announced if now_ns < one.at_ns <= now_ns + lead_ns]
    return min(near, default=0)


def limits(
    announced: Sequence[Announced], budget_uw: int, now_ns: int, lead_ns: int
) -> list[Limit]:
    """How what may be committed to changes after now, by time.

    ``announced`` are all after now, by time; ``budget_uw`` is in force now.
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
