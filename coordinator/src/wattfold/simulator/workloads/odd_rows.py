"""Invalid rows of a log: the rules, the treatment of each, and the record.

A rule names one kind of fault, and a treatment how to handle it. `repair` repairs rows if possible
and drops the others, `skip` drops the row, `fail` stops the reading, and `keep` records the row and
leaves it unchanged. A policy is one treatment for all rules, with exceptions by rule. Every row
that violates a rule is recorded with its line, so that counts can be checked against the file.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from wattfold.simulator.workloads.header import printable

_VALUE_LENGTH = 40


class Treatment(enum.Enum):
    """Treatment of an invalid row."""

    REPAIR = "repair"
    SKIP = "skip"
    FAIL = "fail"
    KEEP = "keep"


class FaultKind(enum.Enum):
    """A kind of fault. Rules are applied in this order."""

    COLUMN_COUNT = "column-count"
    BAD_NUMBER = "bad-number"
    NOT_WHOLE = "not-whole"
    NEGATIVE_VALUE = "negative-value"
    NEGATIVE_SUBMIT = "negative-submit"
    PARTIAL_LINE = "partial-line"
    REPEATED_ID = "repeated-id"
    UNLIKE_UNITS = "unlike-units"
    NO_SIZE = "no-size"
    NO_RUN = "no-run"
    ZERO_RUN = "zero-run"
    RUN_OVER_REQUESTED = "run-over-requested"
    OUT_OF_ORDER = "out-of-order"


MEANINGS: Mapping[FaultKind, tuple[str, str]] = {
    FaultKind.COLUMN_COUNT: (
        "not 18 fields",
        "missing fields become -1, extra fields are ignored; below 4 fields: dropped",
    ),
    FaultKind.BAD_NUMBER: (
        "a field is not a number, or above 2^52",
        "the field becomes -1; an ID or a submit time: dropped",
    ),
    FaultKind.NOT_WHOLE: ("a count or an ID has a fraction", "rounded up"),
    FaultKind.NEGATIVE_VALUE: ("a value below zero other than -1", "becomes -1; an ID: dropped"),
    FaultKind.NEGATIVE_SUBMIT: (
        "submitted before the start of the log",
        "submit time set to the start of the log",
    ),
    FaultKind.PARTIAL_LINE: ("a part of a job that also has a line for the whole", "dropped"),
    FaultKind.REPEATED_ID: ("an ID that an earlier row has", "a new ID above all others"),
    FaultKind.UNLIKE_UNITS: (
        "units of one job differ",
        "every unit requests the maximum of each resource",
    ),
    FaultKind.NO_SIZE: (
        "no number of processors (field 5)",
        "the requested number (field 8); without it: dropped",
    ),
    FaultKind.NO_RUN: ("no run time (below zero)", "dropped: the job never ran"),
    FaultKind.ZERO_RUN: ("run time zero (below half a second)", "set to one second"),
    FaultKind.RUN_OVER_REQUESTED: ("ran longer than requested", "cut to the requested time"),
    FaultKind.OUT_OF_ORDER: ("submitted before the row above it", "sorted by submit time"),
}
"""Error and repair of each rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddRowPolicy:
    """One treatment for all rules, and exceptions."""

    default: Treatment = Treatment.REPAIR
    exceptions: Mapping[FaultKind, Treatment] = field(default_factory=dict)

    def treatment(self, rule: FaultKind) -> Treatment:
        """Return the treatment of rows that violate a rule."""
        return self.exceptions.get(rule, self.default)


class RowOutcome(enum.Enum):
    """Result for an invalid row."""

    REPAIRED = "repaired"
    DROPPED = "dropped"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddRow:
    """A row that violates a rule."""

    line: int
    rule: FaultKind
    outcome: RowOutcome
    field_number: int
    """Number of the field with the fault, from 1; 0 for the row as a whole."""
    value: str
    """Value in the file, shortened."""


@dataclass(slots=True)
class OddRowReport:
    """All invalid rows of a file."""

    rows: list[OddRow] = field(default_factory=list)
    data_lines: int = 0
    """Lines of the file that are neither blank nor comments."""
    array_elements: int = 0
    """Rows whose ID names an element of a job array; they get new IDs."""

    def add(
        self, rule: FaultKind, outcome: RowOutcome, line: int, field_number: int, value: str
    ) -> None:
        """Record a row."""
        shown = printable(value)
        if len(shown) > _VALUE_LENGTH:
            shown = shown[: _VALUE_LENGTH - 3] + "..."
        self.rows.append(
            OddRow(line=line, rule=rule, outcome=outcome, field_number=field_number, value=shown)
        )

    def count(self, rule: FaultKind, outcome: RowOutcome | None = None) -> int:
        """Return the number of rows that violate a rule, all or those with one outcome."""
        return sum(row.rule is rule and outcome in (None, row.outcome) for row in self.rows)

    def lines(self, rule: FaultKind) -> list[int]:
        """Return the line numbers of rows that violate a rule."""
        return [row.line for row in self.rows if row.rule is rule]

    def why_none(self) -> str:
        """Explain why no row gave a job, with the rules that dropped the most rows."""
        dropped = Counter(row.rule for row in self.rows if row.outcome is RowOutcome.DROPPED)
        found = "; ".join(
            f"{count} by {rule.value} ({MEANINGS[rule][0]}), first in line {self.lines(rule)[0]}"
            for rule, count in dropped.most_common(2)
        )
        return f"all {self.data_lines} rows were invalid and were dropped: {found}"

    def dropped_lines(self) -> set[int]:
        """Return the lines that gave no job."""
        return {row.line for row in self.rows if row.outcome is RowOutcome.DROPPED}
