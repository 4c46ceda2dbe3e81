"""Report of a reproduced evaluation: Markdown for people, values as CSV, everything as JSON.

Each paper fills an `EvaluationReport`; the layout is the same for all. Functions of the callers
draw the plots, because the plots depend on the experiments.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattfold.simulator.papers.claim_tables import (
    claim_document,
    claim_rows,
    stand_in_document,
    stand_in_rows,
    write_text,
)
from wattfold.simulator.papers.stand_in import StandIn
from wattfold.simulator.papers.swept import Totals
from wattfold.simulator.papers.verdicts import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One experiment: its claims, and a table of values whose first row names the columns."""

    name: str
    title: str
    judgements: Sequence[Judgement]
    table: Sequence[Sequence[object]]
    draw: Callable[[Path], list[Path]]
    """Function that draws its plots into a folder."""
    seeds: int = 0
    """Number of seeds, if it is the experiment's own."""
    how: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    """More data for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """A whole evaluation. ``values`` names its tables, ``measures`` describes their columns."""

    paper: str
    title: str
    sections: Sequence[Section]
    values: str
    measures: Mapping[str, str]
    settings: Mapping[str, object]
    stand_ins: Sequence[StandIn]
    totals: Totals
    quick: str = ""
    """Note for a quick run, which is no evaluation; empty for a full run."""
    remarks: Sequence[str] = ()
    facts: Mapping[str, object] = field(default_factory=dict)


def write_report(report: EvaluationReport, folder: Path) -> list[Path]:
    """Write all files below a folder and return them. Raises OSError and LogError."""
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


def document(report: EvaluationReport) -> dict[str, object]:
    """Return the report as plain data; unknown values (an interval of one seed) are null."""
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


def _markdown(report: EvaluationReport, folder: Path, plots: Mapping[str, Sequence[Path]]) -> str:
    lines = [f"# {report.title}", ""]
    for text in (*((f"**{report.quick}.**",) if report.quick else ()), *report.remarks):
        lines += [text, ""]
    for section in report.sections:
        lines += [f"## {titled(section)}", ""]
        lines += [section.how, ""] if section.how else []
        lines += [*claim_rows(section.judgements), ""]
        lines += [
            f"![{path.stem}]({path.relative_to(folder)})"
            for path in plots[section.name]
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
    """Return the title with the number of seeds."""
    if not section.seeds:
        return section.title
    return f"{section.title}, {section.seeds} seed{'s' if section.seeds > 1 else ''}"
