"""Series in CSV: budgets by time, or prices and carbon intensities with the budgets for them.

The first line names the columns. Times are ISO 8601, local without an offset. A local time that the
clocks skip or repeat is refused, with its line. A value stays until the time of the next line.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from wattfold.contract.local_time import LocalTimeError, parse_local_s
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import parse_power_uw
from wattfold.coordinator.cli.site.schedules.steps import ScheduledStep

ROWS_MAX = 600_000
"""A year of minutes, and some more."""
BUDGETS = {"budget_w": "W", "budget_kw": "kW"}
VALUES = ("eur_per_mwh", "g_per_kwh")


class Above(NamedTuple):
    """The budget for values above a limit."""

    value: float
    budget_uw: int


def parse_above(text: str) -> Above:
    """Parse `VALUE=WATTS`, such as `120=60kW`. Raises ValueError."""
    value, equals, watts = text.rpartition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = math.nan
    if not equals or not math.isfinite(limit):
        raise ValueError(f"not a value and a budget: {text!r}; expected for example 120=60kW")
    return Above(limit, parse_power_uw(watts))


def read_series(path: Path, above: Sequence[Above], otherwise_uw: int) -> list[ScheduledStep]:
    """Return the budgets of a file in order of its lines.

    A file of values needs ``above``, the budgets for values above limits. ``otherwise_uw`` is the
    budget for values above none of them; 0 = such a value is refused. Raises BadRequestError.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(_steps(path, file.read().splitlines(), above, otherwise_uw))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadRequestError(f"cannot read {path}: {error}") from error


def _steps(
    path: Path, lines: Sequence[str], above: Sequence[Above], otherwise_uw: int
) -> Iterator[ScheduledStep]:
    if len(lines) > ROWS_MAX:
        raise BadRequestError(f"{path} has {len(lines)} lines; at most {ROWS_MAX} are read")
    rows = csv.reader(lines, strict=True)
    titles = [title.strip().lower() for title in next(rows, [])]
    column, budget_of = _meaning(path, titles, above, otherwise_uw)
    lines_of: dict[float, int] = {}
    for row in rows:
        number = rows.line_num
        if not any(map(str.strip, row)):
            continue
        where = f"{path} line {number}"
        if len(row) != len(titles):
            raise BadRequestError(f"{where}: {len(row)} values under {len(titles)} columns")
        try:
            at_s = _time_s(row[titles.index("time")])
            budget_uw = budget_of(row[column].strip())
        except ValueError as error:
            raise BadRequestError(f"{where}: {error}") from error
        if (first := lines_of.setdefault(at_s, number)) != number:
            raise BadRequestError(f"{where}: the time of line {first} again")
        yield ScheduledStep(at_s, budget_uw)


def _meaning(
    path: Path, titles: Sequence[str], above: Sequence[Above], otherwise_uw: int
) -> tuple[int, Callable[[str], int]]:
    """Return the column that gives the budget, and how its text is understood."""
    known = [title for title in titles if title in BUDGETS or title in VALUES]
    if titles.count("time") != 1 or len(known) != 1:
        raise BadRequestError(
            f"{path} line 1: expected the column time and one of {', '.join([*BUDGETS, *VALUES])}; "
            f"found {','.join(titles)[:200] or 'nothing'}"
        )
    [title] = known
    if title in BUDGETS and not (above or otherwise_uw):
        return titles.index(title), lambda text: _budget_uw(text, BUDGETS[title])
    if title in BUDGETS:
        raise BadRequestError(f"{path} has budgets; omit --above and --otherwise")
    if not above:
        raise BadRequestError(f"{path} has {title}; give budgets for it with --above VALUE=WATTS")
    limits = sorted(above, reverse=True)
    return titles.index(title), lambda text: _mapped_uw(text, limits, otherwise_uw)


def _time_s(text: str) -> float:
    try:
        return parse_local_s(text.strip())
    except LocalTimeError:
        raise
    except (ValueError, OverflowError, OSError) as error:
        text = f"not a time: {text[:80]!r}; expected for example 2027-01-31T18:00+01:00"
        raise ValueError(text) from error


def _budget_uw(text: str, unit: str) -> int:
    if text.isascii() and text[-1:].isdigit():
        return parse_power_uw(text + unit)
    raise ValueError(f"not a power in {unit}: {text[:80]!r}; expected for example 60")


def _mapped_uw(text: str, limits: Sequence[Above], otherwise_uw: int) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"not a number: {text[:80]!r}")
    for limit in limits:
        if value > limit.value:
            return limit.budget_uw
    if not otherwise_uw:
        raise ValueError(f"{value:g} is above no --above; give --otherwise WATTS for such values")
    return otherwise_uw
