"""Comparison of the starts of a simulated run with those of another simulator."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import NS_PER_S, ns_from_s
from wattfold.simulator.engine.record import RunRecord

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck:
    """Number of equal starts. Jobs are those of the run; ``unknown`` are not in the file."""

    policy: str
    jobs: int
    agreeing: int
    unknown: int
    missing: int
    """Jobs of the file that are not in the run."""
    examples: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether every start exists and is equal."""
        return self.agreeing == self.jobs and not self.missing

    def sentence(self) -> str:
        """Return a sentence for people."""
        text = f"{self.policy}: {self.agreeing} of {self.jobs} starts agree"
        if self.unknown:
            text += f", {self.unknown} are not in the file"
        if self.missing:
            text += f", {self.missing} starts of the file are not in the run"
        return text + ("; " + "; ".join(self.examples) if self.examples else ".")

    def document(self) -> dict[str, object]:
        """Return plain data for programs."""
        return {
            "policy": self.policy,
            "jobs": self.jobs,
            "agreeing": self.agreeing,
            "unknown": self.unknown,
            "missing": self.missing,
            "agrees": self.agrees,
        }


def check_starts(record: RunRecord, wanted_ns: Mapping[int, int]) -> StartCheck:
    """Compare the starts of a run with the result of `read_starts`."""
    expected = dict(wanted_ns)
    agreeing = unknown = 0
    examples: list[str] = []
    starts = zip(record.jobs.job_ids.tolist(), record.columns.start_ns.tolist(), strict=True)
    for job_id, start_ns in starts:
        wanted = expected.pop(job_id, None)
        if wanted is None:
            unknown += 1
        elif wanted == start_ns:
            agreeing += 1
        elif len(examples) < _SHOWN:
            examples.append(
                f"job {job_id} starts at {start_ns / NS_PER_S:.10g} s, "
                f"not {wanted / NS_PER_S:.10g} s"
            )
    return StartCheck(
        policy=record.policy,
        jobs=len(record.jobs),
        agreeing=agreeing,
        unknown=unknown,
        missing=len(expected),
        examples=tuple(examples),
    )


def read_starts(path: Path) -> dict[int, int]:
    """Return the starts (ns) of a CSV file with the columns ``job_id,start`` (s), gzip or not.

    Raises ValueError with the name of the file and the line.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{path}: broken gzip data: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a CSV file: {error}") from error
    rows = csv.DictReader(io.StringIO(text))
    starts: dict[int, int] = {}
    try:
        if not {"job_id", "start"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path}: expected the columns job_id,start")
        for row in rows:
            job_id, start_ns = _start_of(row, path, rows.line_num)
            starts[job_id] = start_ns
    except csv.Error as error:
        raise ValueError(f"{path}: not a CSV file: {error}") from error
    return starts


def _start_of(row: Mapping[str, str], path: Path, line: int) -> tuple[int, int]:
    try:
        return int(row["job_id"]), ns_from_s(float(row["start"]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}, line {line}: not an ID and a start") from error
