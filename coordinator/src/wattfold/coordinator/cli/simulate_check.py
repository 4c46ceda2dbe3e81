"""Compares the starts of a simulated run with those of another simulator."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.simulation.pool.record import RunRecord

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck:
    """How many starts agree. Jobs are those of the run; ``unknown`` are not in the file."""

    policy: str
    jobs: int
    agreeing: int
    unknown: int
    missing: int
    """In the file, but not in the run."""
    examples: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every start is there and the same."""
        return self.agreeing == self.jobs and not self.missing

    def sentence(self) -> str:
        """For people."""
        text = f"{self.policy}: {self.agreeing} of {self.jobs} starts agree"
        if self.unknown:
            text += f", {self.unknown} are not in the file"
        if self.missing:
            text += f", {self.missing} of the file are not in the run"
        return text + ("; " + "; ".join(self.examples) if self.examples else ".")

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "policy": self.policy,
            "jobs": self.jobs,
            "agreeing": self.agreeing,
            "unknown": self.unknown,
            "missing": self.missing,
            "agrees": self.agrees,
        }


def check_starts(record: RunRecord, path: Path) -> StartCheck:
    """Compares with a CSV file of ``job_id,start`` (s), gzip or not. Raises ValueError."""
    expected = _read(path)
    agreeing = unknown = 0
    examples: list[str] = []
    starts = zip(record.jobs.job_ids.tolist(), record.columns.start_ns.tolist(), strict=True)
    for job_id, start_ns in starts:
        wanted = expected.pop(job_id, None)
        if wanted is None:
            unknown += 1
        elif round(wanted * NS_PER_S) == start_ns:
            agreeing += 1
        elif len(examples) < _SHOWN:
            examples.append(f"job {job_id} starts at {start_ns / NS_PER_S:g} s, not {wanted:g} s")
    return StartCheck(
        policy=record.policy,
        jobs=len(record.jobs),
        agreeing=agreeing,
        unknown=unknown,
        missing=len(expected),
        examples=tuple(examples),
    )


def _read(path: Path) -> dict[int, float]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    rows = csv.DictReader(io.StringIO(text))
    if not {"job_id", "start"} <= set(rows.fieldnames or ()):
        raise ValueError(f"{path}: expected the columns job_id,start")
    starts: dict[int, float] = {}
    for row in rows:
        try:
            starts[int(row["job_id"])] = float(row["start"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {rows.line_num}: not an id and a start") from error
    return starts
