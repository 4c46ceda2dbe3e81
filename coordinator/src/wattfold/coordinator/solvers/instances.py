"""Random planning problems like those of the paper, for benchmarks, tests and sizing a site.

200 jobs with 8 sizes and 6 caps is the size the paper claims 15 s for. Parameters are drawn as its
section VII says (applications from the published table, sizes from a share of the request up to all
of it); the budget is set relative to what the jobs ask for, because which limit binds decides how
hard the problem is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from wattfold.coordinator.models.pass_model import APPLICATIONS
from wattfold.coordinator.solvers.problem import Problem

CAPS_W = (30.0, 33.0, 36.0, 44.0, 50.0, 60.0)
BASE_W = 38.0 + 18.0
"""Power of a node outside its processors, and its memory at the cap of 18 W."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What kind of problem to draw."""

    name: str
    jobs: int = 200
    sizes: int = 8
    levels: int = len(CAPS_W)
    contention: float = 2.0
    """Units asked for over units there are."""
    power_share: float = 0.8
    """Budget over what all units draw at the highest cap."""
    alpha: float = 0.98
    running_share: float = 0.3


VARIANTS: tuple[Variant, ...] = (
    Variant(name="both-bind"),
    Variant(name="both-bind-low-alpha", alpha=0.28),
    Variant(name="both-bind-high-alpha", alpha=1.48),
    Variant(name="high-contention", contention=4.0, running_share=0.15),
    Variant(name="low-contention", contention=1.1),
    Variant(name="nodes-only", power_share=1.1),
    Variant(name="power-only", contention=1.0, power_share=0.6),
    Variant(name="all-pending", running_share=0.0),
)


def draw(variant: Variant, rng: np.random.Generator) -> Problem:
    """A problem of a variant in which the jobs that must run always fit."""
    jobs = variant.jobs
    size_max = np.round(2.0 ** rng.uniform(3.0, 11.0, jobs)).astype(np.int64)
    running = np.arange(jobs) < round(variant.running_share * jobs)
    columns = [_options_of_job(variant, int(limit), rng) for limit in size_max]
    sizes = np.concatenate([c[0] for c in columns])
    power_uw = np.concatenate([c[1] for c in columns])
    value = np.concatenate([c[2] for c in columns])
    levels = np.concatenate([c[3] for c in columns])
    job_of = np.repeat(np.arange(jobs, dtype=np.int32), [c[0].size for c in columns])
    units_max = math.ceil(size_max.sum() / variant.contention)
    watts = units_max * variant.power_share * (CAPS_W[-1] + BASE_W)
    problem = Problem(
        job_of=job_of,
        size=sizes.astype(np.int32),
        level=levels,
        units=sizes,
        power_uw=power_uw,
        value=value,
        must_run=running,
        units_max=units_max,
        power_uw_max=math.floor(watts) * 1_000_000,
    )
    return replace(problem, must_run=_fitting(problem))


def _options_of_job(
    variant: Variant, size_max: int, rng: np.random.Generator
) -> tuple[
    np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    np.ndarray[tuple[int, ...], np.dtype[np.int32]],
]:
    """Sizes, powers, values and levels of all options of one drawn job."""
    app = sorted(APPLICATIONS)[int(rng.integers(len(APPLICATIONS)))]
    profile = replace(
        APPLICATIONS[app],
        average_parallelism=max(1.0, size_max * 2.0 ** rng.uniform(-1.0, 2.0)),
        sigma=rng.uniform(),
        t1_s=1.0,
    )
    profile = profile.scaled(
        3600.0 * rng.lognormal(0.0, 1.0) / profile.time_s(size_max, CAPS_W[-1])
    )
    size_min = max(1, round(size_max * rng.uniform(0.2, 0.6)))
    sizes = np.unique(np.round(np.linspace(size_min, size_max, variant.sizes)).astype(np.int64))
    caps = np.asarray(CAPS_W[: variant.levels])
    times = profile.times_s(sizes, caps)
    weight = (rng.uniform(0.05, 1.0) * times[0, 0] + rng.exponential(3600.0)) ** variant.alpha
    power_w = np.multiply.outer(sizes, caps + BASE_W)
    return (
        np.repeat(sizes, caps.size),
        np.round(power_w * 1e6).astype(np.int64).ravel(),
        (weight * times[0, 0] / times).ravel(),
        np.tile(np.arange(caps.size, dtype=np.int32), sizes.size),
    )


def _fitting(problem: Problem) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Keeps jobs running while their cheapest options take at most 80 % of each limit."""
    starts = problem.starts()
    units = np.minimum.reduceat(problem.units, starts[:-1])
    power_uw = np.minimum.reduceat(problem.power_uw, starts[:-1])
    fits = np.cumsum(units * problem.must_run) <= 0.8 * problem.units_max
    fits &= np.cumsum(power_uw * problem.must_run) <= 0.8 * problem.power_uw_max
    return problem.must_run & fits
