"""Calendars in TOML: budgets by day and time of day, expanded some days ahead.

The last rule that applies gives the budget, so exceptions follow the general rules. Local times are
used. If the clocks skip a time, the rule changes at the end of the gap; if they repeat it, at the
first of both times. Each such time is named.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from wattfold.contract.local_time import local, moment
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import parse_power_uw
from wattfold.coordinator.cli.site.schedules.steps import ScheduledStep

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
RULES_MAX = 1000
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\Z")
_KEYS = {"days", "dates", "from", "to", "budget_w", "budget_kw"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarRule:
    """A budget from a minute of its days to another, on the next day if that is not later.

    ``weekdays`` counts from Monday, 0. ``dates`` = None: its weekdays, else these dates.
    """

    weekdays: frozenset[int]
    dates: frozenset[date] | None
    from_minute: int
    to_minute: int
    budget_uw: int

    def applies(self, day: date, minute: int) -> bool:
        """Whether the rule gives the budget at a minute of a day."""
        if self.from_minute < self.to_minute:
            return self._on(day) and self.from_minute <= minute < self.to_minute
        if minute >= self.from_minute:
            return self._on(day)
        return minute < self.to_minute and self._on(day - timedelta(days=1))

    def _on(self, day: date) -> bool:
        return day.weekday() in self.weekdays if self.dates is None else day in self.dates


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Rules, and the budget where none applies."""

    default_uw: int
    rules: tuple[CalendarRule, ...]

    def budget_uw(self, day: date, minute: int) -> int:
        """Return the budget from a minute of a day on, in microwatts."""
        for rule in reversed(self.rules):
            if rule.applies(day, minute):
                return rule.budget_uw
        return self.default_uw

    def steps(self, now_s: float, days: int) -> list[ScheduledStep]:
        """Return the budgets from yesterday on, up to ``days`` times 24 hours ahead."""
        end_s = now_s + days * 86_400
        first = local(now_s).date() - timedelta(days=1)
        minutes = {rule.from_minute for rule in self.rules}
        minutes |= {rule.to_minute % DAY_MINUTES for rule in self.rules}
        found: dict[float, ScheduledStep] = {}
        for day in (first + timedelta(days=number) for number in range(days + 3)):
            for minute in sorted(minutes | {0}):
                at_s, note = _instant(day, minute)
                if at_s <= end_s:
                    found[at_s] = ScheduledStep(at_s, self.budget_uw(day, minute), note)
        return list(found.values())


def read_calendar(path: Path) -> Calendar:
    """Read a calendar. Raises BadRequestError with the rule and the key that is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequestError(f"cannot read {path}: {error}") from error
    try:
        return _calendar(document)
    except ValueError as error:
        raise BadRequestError(f"{path}: {error}") from error


def _calendar(document: Mapping[str, Any]) -> Calendar:
    _only(document, {"rule", "default_budget_w", "default_budget_kw"})
    rules = document.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ValueError("rules are tables: write [[rule]]")
    if len(rules) > RULES_MAX:
        raise ValueError(f"{len(rules)} rules; at most {RULES_MAX} are read")
    found: list[CalendarRule] = []
    for number, rule in enumerate(rules, 1):
        try:
            found.append(_rule(rule))
        except ValueError as error:
            raise ValueError(f"rule {number}: {error}") from error
    return Calendar(default_uw=_budget_uw(document, "default_"), rules=tuple(found))


def _rule(rule: Mapping[str, Any]) -> CalendarRule:
    _only(rule, _KEYS)
    if "days" in rule and "dates" in rule:
        raise ValueError("give days or dates, not both")
    from_minute, to_minute = _minute(rule, "from", 0), _minute(rule, "to", DAY_MINUTES)
    if from_minute in (to_minute, DAY_MINUTES):
        raise ValueError("from and to must differ; for whole days, omit both")
    return CalendarRule(
        weekdays=frozenset(_weekdays(rule.get("days", ["mon-sun"]))),
        dates=frozenset(_dates(rule["dates"])) if "dates" in rule else None,
        from_minute=from_minute,
        to_minute=to_minute,
        budget_uw=_budget_uw(rule),
    )


def _only(table: Mapping[str, Any], keys: set[str]) -> None:
    if unknown := sorted(table.keys() - keys):
        raise ValueError(f"unknown: {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def _budget_uw(table: Mapping[str, Any], prefix: str = "") -> int:
    keys = (f"{prefix}budget_w", f"{prefix}budget_kw")
    given = [key for key in keys if key in table]
    if len(given) != 1:
        raise ValueError(f"give {keys[0]} or {keys[1]}")
    value = table[given[0]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{given[0]} is a number, not {value!r}")
    return parse_power_uw(f"{value:.6f}{'kW' if given[0].endswith('kw') else 'W'}")


def _minute(rule: Mapping[str, Any], key: str, default: int) -> int:
    """Return a time of day in minutes. A time without quotes is a time of TOML, with seconds."""
    text = rule.get(key)
    if text is None:
        return default
    if isinstance(text, time) and not (text.second or text.microsecond):
        return text.hour * 60 + text.minute
    match = _TIME.match(text) if isinstance(text, str) else None
    if match is not None:
        return int(match[1]) * 60 + int(match[2])
    if text == "24:00":
        return DAY_MINUTES
    raise ValueError(f"{key} is a time of day such as 08:00, not {text!r}")


def _weekdays(days: Any) -> Iterator[int]:
    """Yield the weekdays of names and ranges, such as `mon-fri` or `sat-mon`."""
    for text in _texts(days, "days"):
        first, dash, last = (part.strip() for part in text.lower().partition("-"))
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"{text!r} is no day; expected for example mon or mon-fri")
        start = DAYS.index(first)
        length = (DAYS.index(last) - start) % 7 if dash else 0
        yield from ((start + offset) % 7 for offset in range(length + 1))


def _dates(dates: Any) -> Iterator[date]:
    for one in dates if isinstance(dates, list) else [dates]:
        try:
            day = date.fromisoformat(one) if isinstance(one, str) else one
        except ValueError:
            day = None
        if not isinstance(day, date) or isinstance(day, datetime):
            raise ValueError(f"{one!r} is no date; expected for example 2027-01-31")
        yield day


def _texts(value: Any, key: str) -> Sequence[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise ValueError(f'{key} is a list such as ["mon-fri"], not {value!r}')
    return texts


def _instant(day: date, minute: int) -> tuple[float, str]:
    """Return the Unix seconds of a local time, and how it was understood if it is not one time."""
    said = datetime.combine(day, time(minute // 60, minute % 60))
    first, second = (said.replace(fold=fold).astimezone() for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first.timestamp(), ""
    if first.replace(tzinfo=None) == said:
        note = f"{said} exists twice; the first is used, {moment(first.timestamp())}"
        return first.timestamp(), note
    at_s = _gap_end_s(*sorted((first.timestamp(), second.timestamp())))
    return at_s, f"{said} does not exist; {moment(at_s)} is used"


def _gap_end_s(before_s: float, after_s: float) -> float:
    """Return the second between two times at which the UTC offset changes."""
    low, high, after = round(before_s), round(after_s), local(after_s).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if local(middle).utcoffset() == after:
            high = middle
        else:
            low = middle
    return float(high)
