"""Measurements of real programs, as plain data that is stored and loaded.

The paper measured how a running job shrinks and expands (Tables 1 to 4), and the remaining load on
a vacated processor (Figure 3). It also measured the mutual cost of co-resident adaptive jobs (Table
5), and two jobs that share processors (Figures 4 and 5). `demo.charm_trials` measures the same
here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

_CONVERTER = make_converter()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMachine:
    """Machine of the measurements."""

    processor: str
    cores: int
    """Number of cores available to the trial."""
    system: str
    python: str
    charm4py: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeTime:
    """One change of the processors of a job."""

    pes_from: int
    pes_to: int
    pe_bytes: int
    """Data of a processor before it shrinks, and after it has grown."""
    took_s: float
    """Time from the order to the program until all its objects were in place."""
    stalled_s: float
    """Part of that time that the program reports as spent on the move."""
    moved_bytes: int

    @property
    def grows(self) -> bool:
        """Whether it expands."""
        return self.pes_to > self.pes_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualLoad:
    """Load of a vacated processor, as a fraction of a core in windows of equal length."""

    program: str
    """Activity of the program on the other processors."""
    step_s: float
    """Mean time of its steps; 0 = it made none."""
    window_s: float
    loads: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over all windows."""
        return sum(self.loads) / len(self.loads)

    @property
    def peak(self) -> float:
        """Load of the window with the highest load."""
        return max(self.loads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """Steps per second of ``jobs`` jobs on ``pes_each`` processors each, summed; a pair per run."""

    jobs: int
    pes_each: int
    adaptive: tuple[float, ...]
    """Each job has residual processes on the processors of all others."""
    rigid: tuple[float, ...]

    @property
    def step_s(self) -> float:
        """Mean time of a step of the rigid jobs."""
        return self.jobs * len(self.rigid) / sum(self.rigid)


Series = tuple[tuple[float, float], ...]
"""Seconds since the start, and a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingJob:
    """One of two jobs that share processors."""

    name: str
    held: Series
    """Processors that it holds."""
    throughput: Series
    """Steps per second."""
    load: Series
    """Fraction of the shared processor that its processes use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingMeasurement:
    """Two jobs: the second arrives and ends while the first runs."""

    pes: int
    arrives_s: float
    """Time of the submission of the second job, and of the end of its last process."""
    ended_s: float
    jobs: tuple[SharingJob, SharingJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipartitionMeasurements:
    """All measurements."""

    machine: MeasuredMachine
    quick: bool
    resizes: tuple[ResizeTime, ...]
    residual: tuple[ResidualLoad, ...]
    interference: tuple[Interference, ...]
    sharing: tuple[SharingMeasurement, ...]
    """On as many processors as in the paper, or on as many as there are cores if fewer."""


def store(measured: Any, path: Path) -> None:
    """Write measurements, or a part of them. Raises OSError."""
    text = _CONVERTER.dumps(measured, indent=1) + "\n"
    beside = path.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> EquipartitionMeasurements:
    """Read a file of `store`. Raises OSError, and ValueError for another file."""
    return _load(path, EquipartitionMeasurements)


def measured_once(path: Path, kind: type[T], measure: Callable[[], T]) -> T:
    """Return the content of a file, or measure and store it. Raises OSError, ValueError."""
    if path.is_file():
        return _load(path, kind)
    found = measure()
    store(found, path)
    return found


def _load(path: Path, kind: type[T]) -> T:
    try:
        found: T = _CONVERTER.loads(path.read_text(encoding="utf-8"), kind)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has no measurements of this version: {error}") from error
    return found


def mean_between(series: Series, from_s: float, to_s: float) -> float:
    """Return the mean of the values in an interval; NaN if there are none."""
    values = [value for at_s, value in series if from_s <= at_s < to_s]
    return sum(values) / len(values) if values else float("nan")
