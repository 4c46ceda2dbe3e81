"""The invalid rows of a log, as a table and for programs."""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.simulator.workloads.odd_rows import (
    MEANINGS,
    FaultKind,
    OddRowReport,
    RowOutcome,
)

_LINES_SHOWN = 3
_LINES_IN_JSON = 10


def odd_row_table(report: OddRowReport) -> PlainTable:
    """Return one line per violated rule."""
    table = plain_table(
        left("INVALID ROWS"),
        right("FOUND"),
        right("REPAIRED"),
        right("DROPPED"),
        right("KEPT"),
        left("LINES"),
        flexible("MEANING"),
    )
    for rule in FaultKind:
        lines = report.lines(rule)
        if not lines:
            continue
        more = ", ..." if len(lines) > _LINES_SHOWN else ""
        add_row(
            table,
            rule.value,
            str(len(lines)),
            *(str(report.count(rule, outcome)) for outcome in RowOutcome),
            ", ".join(str(line) for line in lines[:_LINES_SHOWN]) + more,
            MEANINGS[rule][0],
        )
    return table


def odd_row_counts(report: OddRowReport) -> list[dict[str, Any]]:
    """Return counts and first lines of every violated rule, for JSON."""
    return [
        {
            "rule": rule.value,
            "found": len(lines),
            **{outcome.value: report.count(rule, outcome) for outcome in RowOutcome},
            "first_lines": lines[:_LINES_IN_JSON],
            "meaning": MEANINGS[rule][0],
            "repair": MEANINGS[rule][1],
        }
        for rule in FaultKind
        if (lines := report.lines(rule))
    ]
