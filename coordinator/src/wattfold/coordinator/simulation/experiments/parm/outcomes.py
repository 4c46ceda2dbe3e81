"""Results of cases as samples over seeds, and the points of figures and tables made of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.simulation.experiments.parm.case import Log, ParmCase, large_case
from wattfold.coordinator.simulation.experiments.parm.measure import MEASURES
from wattfold.coordinator.simulation.experiments.parm.settings import (
    GAMMAS,
    LARGE_JOBS,
    LEVELS,
    QUICK_GAMMAS,
    QUICK_JOBS,
    QUICK_LEVELS,
    Settings,
)
from wattfold.coordinator.simulation.experiments.samples import MissingError, Samples
from wattfold.coordinator.simulation.results.intervals import Interval, mean_interval
from wattfold.coordinator.simulation.workloads.workload import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run."""

    seeds: tuple[int, ...]
    settings: Settings
    quick: bool = False
    log: Log | None = None

    @property
    def gammas(self) -> tuple[float, ...]:
        """The factors of arrival times."""
        return QUICK_GAMMAS if self.quick else GAMMAS

    @property
    def levels(self) -> tuple[int, ...]:
        """The numbers of power levels."""
        return QUICK_LEVELS if self.quick else LEVELS

    @property
    def count(self) -> int:
        """Jobs of each set of the log."""
        return QUICK_JOBS if self.quick else LARGE_JOBS

    def large(self, jobs: str, gamma: float, policy: str) -> list[ParmCase]:
        """A case of the large machine for every seed. Raises ValueError without a log."""
        return [
            large_case(jobs, seed, gamma, policy, self.settings, self.needed_log, self.count)
            for seed in self.seeds
        ]

    @property
    def needed_log(self) -> Log:
        """The log of the large machine. Raises ValueError where there is none."""
        if self.log is None:
            raise ValueError("the large machine needs a log of jobs")
        return self.log


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a figure: a measure of a policy on a set of jobs, over the seeds."""

    experiment: str
    jobs: str
    parameter: str
    """Name of what is varied: gamma, alpha, levels, cap_w, or empty."""
    x: float
    policy: str
    measure: str
    interval: Interval


class Outcomes(Samples):
    """The values of all cases that gave some."""

    def points(
        self,
        experiment: str,
        jobs: str,
        policy: str,
        cases: Sequence[ParmCase],
        parameter: str = "",
        x: float = math.nan,
    ) -> list[Point]:
        """Every measure of cases that differ in their seed; none where one is missing."""
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
    """Last minus first and each minus the one before, in pairs of one seed."""
    steps = [mean_interval(b - a) for a, b in itertools.pairwise(samples)]
    return mean_interval(samples[-1] - samples[0]), steps


def geometric_mean(samples: Sequence[Floats]) -> Floats:
    """Over the samples, seed by seed."""
    mean: Floats = np.exp(np.mean([np.log(sample) for sample in samples], axis=0))
    return mean
