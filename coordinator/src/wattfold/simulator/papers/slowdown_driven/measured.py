"""Experiment d: measurements of real programs, as plain data that is stored and loaded.

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
    """Run time on all cores of its nodes."""

    @property
    def response_s(self) -> float:
        """Time from submission to end."""
        return self.ended_s - self.submitted_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRun:
    """The jobs of a seed under one policy."""

    policy: str
    seed: int
    jobs: tuple[RealJob, ...]
    energy_j: float
    """Energy of all nodes until the last end, including idle power."""
    resizes: int
    committed_w_peak: float
    budget_w: float

    @property
    def makespan_s(self) -> float:
        """Time from the first submission to the last end."""
        return max(job.ended_s for job in self.jobs)

    @property
    def response_s(self) -> float:
        """Mean response."""
        return sum(job.response_s for job in self.jobs) / len(self.jobs)

    @property
    def slowdown(self) -> float:
        """Mean of response over time alone."""
        return sum(job.response_s / job.alone_s for job in self.jobs) / len(self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """All runs: for each seed one of every policy, static backfill first."""

    processor: str
    cores: int
    """Number of cores available to the trial."""
    nodes: int
    """Number of emulated nodes."""
    quick: bool
    runs: tuple[RealRun, ...]

    def of(self, policy: str) -> list[RealRun]:
        """Return the runs under a policy, by seed."""
        return sorted((run for run in self.runs if run.policy == policy), key=lambda run: run.seed)


def store(measured: MeasuredRuns, path: Path) -> None:
    """Write measurements. Raises OSError."""
    beside = path.with_suffix(".part")
    beside.write_text(_CONVERTER.dumps(measured, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> MeasuredRuns:
    """Read a file of `store`. Raises OSError, and ValueError for another file."""
    try:
        found: Any = _CONVERTER.loads(path.read_text(encoding="utf-8"), MeasuredRuns)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has no measurements of this version: {error}") from error
    measured: MeasuredRuns = found
    return measured
