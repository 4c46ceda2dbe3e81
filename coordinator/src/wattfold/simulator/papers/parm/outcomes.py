"""Results of cases as samples over seeds, and the points of figures and tables from them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattfold.simulator.papers.parm.case import ParmCase, ParmLog, large_case
from wattfold.simulator.papers.parm.measure import MEASURES
from wattfold.simulator.papers.parm.settings import (
    GAMMAS,
    LARGE_JOBS,
    LEVELS,
    QUICK_GAMMAS,
    QUICK_JOBS,
    QUICK_LEVELS,
    ParmAssumptions,
)
from wattfold.simulator.papers.samples import MissingError, Samples
from wattfold.simulator.results.intervals import Interval, mean_interval
from wattfold.simulator.workloads.workload import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmPlan:
    """Plan of the evaluation."""

    seeds: tuple[int, ...]
    settings: ParmAssumptions
    quick: bool = False
    log: ParmLog | None = None

    @property
    def gammas(self) -> tuple[float, ...]:
        """Factors of arrival times."""
        return QUICK_GAMMAS if self.quick else GAMMAS

    @property
    def levels(self) -> tuple[int, ...]:
        """Numbers of power levels."""
        return QUICK_LEVELS if self.quick else LEVELS

    @property
    def count(self) -> int:
        """Number of jobs of each set of the log."""
        return QUICK_JOBS if self.quick else LARGE_JOBS

    def large(self, jobs: str, gamma: float, policy: str) -> list[ParmCase]:
        """Return a case of the large machine for every seed. Raises ValueError without a log."""
        return [
            large_case(jobs, seed, gamma, policy, self.settings, self.needed_log, self.count)
            for seed in self.seeds
        ]

    @property
    def needed_log(self) -> ParmLog:
        """Log of the large machine. Raises ValueError if it is missing."""
        if self.log is None:
            raise ValueError("the large machine needs a log of jobs")
        return self.log


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a figure: a measure of a policy on a set of jobs, over the seeds."""

    experiment: str
    jobs: str
    parameter: str
    """Name of the varied parameter: gamma, alpha, levels, cap_w, or empty."""
    x: float
    policy: str
    measure: str
    interval: Interval


class Outcomes(Samples):
    """Values of all cases with a result."""

    def points(
        self,
        experiment: str,
        jobs: str,
        policy: str,
        cases: Sequence[ParmCase],
        parameter: str = "",
        x: float = math.nan,
    ) -> list[Point]:
        """Return every measure of cases that differ in their seed; none if a case is missing."""
        try:
            return [
                Point(
                    experiment=experiment,
                    jobs=jobs,
                    parameter=parameter,
                    x=x,
                    policy=policy,
                    measure=measure,
                    interval=mean_interval(self.sample(cases, measure)),
                )
                for measure in MEASURES
            ]
        except MissingError:
            return []


def steps_of(samples: Sequence[Floats]) -> tuple[Interval, list[Interval]]:
    """Return last minus first, and the difference of each sample to the previous, by seed."""
    steps = [mean_interval(b - a) for a, b in itertools.pairwise(samples)]
    return mean_interval(samples[-1] - samples[0]), steps


def geometric_mean(samples: Sequence[Floats]) -> Floats:
    """Return the geometric mean over the samples, for each seed."""
    mean: Floats = np.exp(np.mean([np.log(sample) for sample in samples], axis=0))
    return mean
