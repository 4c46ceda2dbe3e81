"""Cases of the evaluation: single simulations that can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wattfold.simulator.papers.equipartition.settings import (
    LOADS,
    LONG_JOBS,
    LONG_SEEDS,
    QUICK_JOBS,
    QUICK_SEEDS,
    SHORT_JOBS,
    SHORT_SEEDS,
    EquipartitionAssumptions,
)

ADAPTIVE, STALLED, TRADITIONAL = "adaptive", "adaptive, stalled", "traditional"
SCHEDULERS = (ADAPTIVE, STALLED, TRADITIONAL)
"""Malleable jobs, malleable jobs with a cost of each resize, and rigid jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCase:
    """A number of jobs at a load under one scheduler."""

    scheduler: str
    """One of `SCHEDULERS`."""
    load: float
    jobs: int
    seed: int
    settings: EquipartitionAssumptions

    @property
    def label(self) -> str:
        """Label for people and file names."""
        return f"{self.scheduler} load {self.load:g} {self.jobs}jobs s{self.seed}"

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result."""
        return {
            "scheduler": self.scheduler,
            "load": self.load,
            "jobs": self.jobs,
            "seed": self.seed,
            "settings": self.settings.document(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipartitionPlan:
    """Plan of the evaluation: seeds, lengths and assumptions. ``seeds`` 0 = the default numbers."""

    settings: EquipartitionAssumptions
    seeds: int = 0
    quick: bool = False

    @property
    def lengths(self) -> tuple[int, ...]:
        """Jobs of a run: as on the paper's cluster, and as in its simulation."""
        return (SHORT_JOBS, QUICK_JOBS if self.quick else LONG_JOBS)

    def seeds_of(self, jobs: int) -> range:
        """Return the seeds of runs of a length."""
        usual = QUICK_SEEDS if self.quick else SHORT_SEEDS if jobs == SHORT_JOBS else LONG_SEEDS
        return range(self.seeds or usual)

    def cases(self, jobs: int, scheduler: str, load: float) -> list[LoadCase]:
        """Return a case per seed; the same jobs arrive under every scheduler."""
        return [
            LoadCase(scheduler=scheduler, load=load, jobs=jobs, seed=seed, settings=self.settings)
            for seed in self.seeds_of(jobs)
        ]

    def all_cases(self, jobs: int) -> list[LoadCase]:
        """Return all cases of a length, the expensive ones first."""
        return [
            case
            for load in reversed(LOADS)
            for scheduler in SCHEDULERS
            for case in self.cases(jobs, scheduler, load)
        ]
