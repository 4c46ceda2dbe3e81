"""Claims and assumptions as rows of a report and as plain data, for every paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from wattfold.simulator.papers.stand_in import StandIn
from wattfold.simulator.papers.verdicts import Judgement
from wattfold.simulator.workloads.swf_writer import whole_file


def claim_rows(judgements: Sequence[Judgement]) -> list[str]:
    """Return a table in Markdown."""
    rows = ["| claim | source | measured | verdict | why |", "|---|---|---|---|---|"]
    rows += [
        f"| {j.claim.text} | {j.claim.source} | {j.measured} | **{j.verdict}** | {j.why} |"
        for j in judgements
    ]
    return rows


def stand_in_rows(known: Sequence[StandIn]) -> list[str]:
    """Return a table in Markdown, with its heading."""
    rows = ["## What the paper leaves open, and what stands for it", ""]
    rows += ["| | here | why | option |", "|---|---|---|---|"]
    rows += [f"| {s.name} | {s.value} | {s.why} | {s.option and f'`{s.option}`'} |" for s in known]
    return rows


def claim_document(judgement: Judgement) -> dict[str, object]:
    """Return a claim as plain data; unknown values (an interval of one seed) are null."""
    interval = judgement.interval
    return {
        "key": judgement.claim.key,
        "claim": judgement.claim.text,
        "source": judgement.claim.source,
        "measured": judgement.measured,
        "verdict": judgement.verdict.value,
        "why": judgement.why,
        "mean": _known(interval.mean) if interval else None,
        "low": _known(interval.low) if interval else None,
        "high": _known(interval.high) if interval else None,
    }


def stand_in_document(stand_in: StandIn) -> dict[str, object]:
    """Return an assumption as plain data."""
    return {
        "name": stand_in.name,
        "value": stand_in.value,
        "why": stand_in.why,
        "option": stand_in.option,
    }


def write_text(path: Path, text: str) -> Path:
    """Write a file completely or not at all. Raises LogError if it cannot be written."""
    with whole_file(path) as stream:
        stream.write(text.encode())
    return path


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
