"""Announced budgets: the budget in force at a time, and the limit on committed power before it.

A lower budget must hold *at* its time. So committed power is at most the lower budget from a lead
before that time on. The lead is the time for which caps may stay up on a node that falls silent.
The limit at a time is the minimum of the budget in force and of the budgets within the lead. A
higher budget applies from its own time on.

All announced budgets are kept in order of time, so most questions cost a binary search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

ANNOUNCED_MAX = 10_000
"""Maximum number of announced budgets of a site: a year of hours, and some more."""
AHEAD_MAX = 256
"""Maximum number of announced budgets in a plan, because each makes every plan more expensive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A budget in force from ``at_ns`` on, in coordinator time. ``number`` identifies it.

    ``schedule`` is the name of the schedule that it belongs to; empty = announced on its own.
    """

    number: int
    at_ns: int
    budget_uw: int
    schedule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAnnounced:
    """An operator announced a budget that applies from ``at_ns`` (coordinator time) on."""

    at_ns: int
    budget_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCancelled:
    """An operator cancelled an announced budget."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsScheduled:
    """An operator replaced all announced budgets of a schedule, or cancelled them (no budgets).

    ``budgets`` holds times and budgets in order of time. Other announced budgets stay. Logs and
    records of events omit the budgets: there may be thousands.
    """

    schedule: str
    budgets: tuple[BudgetAnnounced, ...] = field(repr=False)


class Limit(NamedTuple):
    """Limit on committed power from a time on."""

    from_ns: int
    limit_uw: int


def begun(announced: Sequence[Announced], now_ns: int) -> int:
    """Return how many of the announced budgets, in order of time, start at a time or before it."""
    return bisect_right(announced, now_ns, key=_at_ns)


def coming_uw(announced: Sequence[Announced], now_ns: int, lead_ns: int) -> int:
    """Return the smallest budget that starts within the lead, in microwatts; 0 = no budget does."""
    near = announced[begun(announced, now_ns) : begun(announced, now_ns + lead_ns)]
    return min((one.budget_uw for one in near), default=0)


def next_ns(announced: Sequence[Announced], now_ns: int, lead_ns: int) -> int:
    """Return the next time after now at which a budget starts, or its lead; 0 = never."""
    starts = announced[begun(announced, now_ns) :][:1]
    leads = announced[begun(announced, now_ns + lead_ns) :][:1]
    times = [one.at_ns for one in starts] + [one.at_ns - lead_ns for one in leads]
    return min(times, default=0)


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
    if passed := begun(announced, at_ns):
        budget_uw = announced[passed - 1].budget_uw
    return min(budget_uw, coming_uw(announced, at_ns, lead_ns) or budget_uw)


def _at_ns(one: Announced) -> int:
    return one.at_ns
