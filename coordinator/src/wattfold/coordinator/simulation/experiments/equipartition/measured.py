"""What was measured on real programs: the figures alone, as they are stored and read again.

The paper measured the shrink and the expand of a running job (Tables 1 to 4), the load that is left
on a vacated processor (Figure 3), what co-resident adaptive jobs cost each other (Table 5), and two
jobs that share processors (Figures 4 and 5). `demo.charm_trials` does it here.
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
class Machine:
    """Where it was measured."""

    processor: str
    cores: int
    """That the trial could use."""
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
    """From the order to the program until all its objects were in place."""
    stalled_s: float
    """What of that the program spent on the move, as it says."""
    moved_bytes: int

    @property
    def grows(self) -> bool:
        """Whether it expands."""
        return self.pes_to > self.pes_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualLoad:
    """A vacated processor, as a share of a core in windows of equal length."""

    program: str
    """What the program did meanwhile on the others."""
    step_s: float
    """Mean time of its steps; 0 = it made none."""
    window_s: float
    loads: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over all windows."""
        return sum(self.loads) / len(self.loads)

    @property
    def peak(self) -> float:
        """Of the window with most."""
        return max(self.loads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """So many jobs on so many processors each: steps per second of all together, a pair a run."""

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
    """Processors it holds."""
    throughput: Series
    """Steps per second."""
    load: Series
    """Share of the shared processor that its processes there use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Two jobs: the second comes and ends while the first runs."""

    pes: int
    arrives_s: float
    """The second is submitted, and its last process has ended."""
    ended_s: float
    jobs: tuple[SharingJob, SharingJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All of it."""

    machine: Machine
    quick: bool
    resizes: tuple[ResizeTime, ...]
    residual: tuple[ResidualLoad, ...]
    interference: tuple[Interference, ...]
    sharing: tuple[Sharing, ...]
    """On as many processors as in the paper, and on as many as there are cores if fewer."""


def store(measured: Any, path: Path) -> None:
    """Writes it, or a part of it. Raises OSError."""
    text = _CONVERTER.dumps(measured, indent=1) + "\n"
    beside = path.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> Measured:
    """Reads what `store` has written. Raises OSError, ValueError for another file."""
    return _load(path, Measured)


def measured_once(path: Path, kind: type[T], measure: Callable[[], T]) -> T:
    """What a file holds; measured and stored there if there is none. Raises OSError, ValueError."""
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
    """The mean of the values of that time; NaN where there are none."""
    values = [value for at_s, value in series if from_s <= at_s < to_s]
    return sum(values) / len(values) if values else float("nan")
