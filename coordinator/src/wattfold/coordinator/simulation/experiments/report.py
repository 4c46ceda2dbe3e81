"""What an evaluation came to that was run again: a report for people, values as CSV, all as JSON.

Each paper says what it found by a `Report`; how it looks is the same for all. Pictures are drawn by
functions of the callers, as they stand above the experiments.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.coordinator.simulation.experiments.claim_tables import (
    claim_document,
    claim_rows,
    stand_in_document,
    stand_in_rows,
    write_text,
)
from wattfold.coordinator.simulation.experiments.stand_in import StandIn
from wattfold.coordinator.simulation.experiments.swept import Totals
from wattfold.coordinator.simulation.experiments.verdicts import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One experiment: its claims, and a table of values whose first row names the columns."""

    name: str
    title: str
    judgements: Sequence[Judgement]
    table: Sequence[Sequence[object]]
    draw: Callable[[Path], list[Path]]
    """Its pictures, into a folder."""
    seeds: int = 0
    """So many, where they are the experiment's own."""
    how: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    """More about it for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of an evaluation. ``values`` names its tables, ``measures`` says what is in them."""

    paper: str
    title: str
    sections: Sequence[Section]
    values: str
    measures: Mapping[str, str]
    settings: Mapping[str, object]
    stand_ins: Sequence[StandIn]
    totals: Totals
    quick: str = ""
    """What is to be said of a run that is no evaluation; empty for one that is."""
    remarks: Sequence[str] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


def write_report(report: Report, folder: Path) -> list[Path]:
    """Writes everything below a folder and returns the files. Raises OSError and LogError."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    pictures: dict[str, list[Path]] = {}
    for section in report.sections:
        place = folder / section.name
        place.mkdir(exist_ok=True)
        written.append(write_text(place / f"{report.values}.csv", _csv(section.table)))
        pictures[section.name] = section.draw(place)
        written += pictures[section.name]
    text = json.dumps(document(report), indent=1, ensure_ascii=False) + "\n"
    written.append(write_text(folder / "verdicts.json", text))
    written.append(write_text(folder / "report.md", _markdown(report, folder, pictures)))
    return written


def document(report: Report) -> dict[str, object]:
    """Everything as plain data; what is not known (an interval of one seed) is null."""
    totals = report.totals
    return {
        "paper": report.paper,
        "quick": bool(report.quick),
        **report.facts,
        "experiments": [
            {
                "name": section.name,
                "title": section.title,
                **section.facts,
                "claims": [claim_document(judgement) for judgement in section.judgements],
            }
            for section in report.sections
        ],
        "settings": report.settings,
        "stand_ins": [stand_in_document(item) for item in report.stand_ins],
        "cases": totals.cases,
        "cases_stored": totals.stored,
        "core_s": round(totals.core_s, 1),
        "failures": [
            {"case": f.label, "reason": f.reason, "trace": f.trace} for f in totals.failures
        ],
    }


def _csv(table: Sequence[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(table)
    return stream.getvalue()


def _markdown(report: Report, folder: Path, pictures: Mapping[str, Sequence[Path]]) -> str:
    lines = [f"# {report.title}", ""]
    for text in (*((f"**{report.quick}.**",) if report.quick else ()), *report.remarks):
        lines += [text, ""]
    for section in report.sections:
        lines += [f"## {titled(section)}", ""]
        lines += [section.how, ""] if section.how else []
        lines += [*claim_rows(section.judgements), ""]
        lines += [
            f"![{path.stem}]({path.relative_to(folder)})"
            for path in pictures[section.name]
            if path.suffix == ".png"
        ]
        lines.append("")
    lines += stand_in_rows(report.stand_ins)
    lines += ["", f"## Columns of the {report.values}", ""]
    lines += [f"- `{name}`: {words}" for name, words in report.measures.items()]
    if report.totals.failures:
        lines += ["", "## Cases that failed", ""]
        lines += [f"- {f.label}: {f.reason}" for f in report.totals.failures]
    return "\n".join(lines) + "\n"


def titled(section: Section) -> str:
    """The title with the number of seeds."""
    if not section.seeds:
        return section.title
    return f"{section.title}, {section.seeds} seed{'s' if section.seeds > 1 else ''}"
