"""The invalid rows of a log, as a table and for programs."""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.cli.shared.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.simulation.workloads.odd_rows import (
    MEANINGS,
    OddRowReport,
    Outcome,
    Rule,
)

_LINES_SHOWN = 3
_LINES_IN_JSON = 10


def odd_row_table(report: OddRowReport) -> PlainTable:
    """One line a rule that found something."""
    table = plain_table(
        left("INVALID ROWS"),
        right("FOUND"),
        right("REPAIRED"),
        right("DROPPED"),
        right("KEPT"),
        left("LINES"),
        flexible("MEANING"),
    )
    for rule in Rule:
        lines = report.lines(rule)
        if not lines:
            continue
        more = ", ..." if len(lines) > _LINES_SHOWN else ""
        add_row(
            table,
            rule.value,
            str(len(lines)),
            *(str(report.count(rule, outcome)) for outcome in Outcome),
            ", ".join(str(line) for line in lines[:_LINES_SHOWN]) + more,
            MEANINGS[rule][0],
        )
    return table


def odd_row_counts(report: OddRowReport) -> list[dict[str, Any]]:
    """Counts and first lines of every rule that found something, for JSON."""
    return [
        {
            "rule": rule.value,
            "found": len(lines),
            **{outcome.value: report.count(rule, outcome) for outcome in Outcome},
            "first_lines": lines[:_LINES_IN_JSON],
            "meaning": MEANINGS[rule][0],
            "repair": MEANINGS[rule][1],
        }
        for rule in Rule
        if (lines := report.lines(rule))
    ]
