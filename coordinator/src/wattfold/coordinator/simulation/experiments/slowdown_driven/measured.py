"""Experiment d: what was measured on real programs, as it is stored and read again.

The paper ran 2,000 jobs on 49 nodes under static backfill and under sharing (section 4.4).
`demo.sharing` runs a stream of jobs on emulated nodes of this machine, under both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

_CONVERTER = make_converter()


@dataclass(frozen=True, slots=True, kw_only=True)
class RealJob:
    """A job that ran. Times in seconds since the first submission."""

    name: str
    nodes: int
    submitted_s: float
    started_s: float
    ended_s: float
    alone_s: float
    """What it takes on all cores of its nodes."""

    @property
    def response_s(self) -> float:
        """Submission to end."""
        return self.ended_s - self.submitted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRun:
    """The jobs of a seed under one policy."""

    policy: str
    seed: int
    jobs: tuple[RealJob, ...]
    energy_j: float
    """Of all nodes, what they draw idle included, until the last end."""
    resizes: int
    committed_w_peak: float
    budget_w: float

    @property
    def makespan_s(self) -> float:
        """First submission to last end."""
        return max(job.ended_s for job in self.jobs)

    @property
    def response_s(self) -> float:
        """The mean."""
        return sum(job.response_s for job in self.jobs) / len(self.jobs)

    @property
    def slowdown(self) -> float:
        """The mean of response over time alone."""
        return sum(job.response_s / job.alone_s for job in self.jobs) / len(self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All runs: of each seed one of every policy, static backfill first."""

    processor: str
    cores: int
    """That the trial could use."""
    nodes: int
    """Emulated ones."""
    quick: bool
    runs: tuple[RealRun, ...]

    def of(self, policy: str) -> list[RealRun]:
        """The runs under a policy, by seed."""
        return sorted((run for run in self.runs if run.policy == policy), key=lambda run: run.seed)


def store(measured: Measured, path: Path) -> None:
    """Writes it. Raises OSError."""
    beside = path.with_suffix(".part")
    beside.write_text(_CONVERTER.dumps(measured, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> Measured:
    """Reads what `store` has written. Raises OSError, ValueError for another file."""
    try:
        found: Any = _CONVERTER.loads(path.read_text(encoding="utf-8"), Measured)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has no measurements of this version: {error}") from error
    measured: Measured = found
    return measured
