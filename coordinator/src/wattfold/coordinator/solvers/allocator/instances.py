"""Random planning problems like those of the paper, for benchmarks, tests and sizing a site.

The paper claims 15 s for 200 jobs with 8 sizes and 6 caps. Parameters are drawn as in its section
VII: applications from the published table, sizes from a share of the request up to all of it. The
budget is relative to the total request of the jobs, because the binding limit determines how hard
the problem is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from wattfold.coordinator.models.pass_model import APPLICATIONS
from wattfold.coordinator.solvers.allocator.problem import AllocationProblem, CapacityRow

CAPS_W = (30.0, 33.0, 36.0, 44.0, 50.0, 60.0)
BASE_W = 38.0 + 18.0
"""Power of a node outside its processors, and its memory at the cap of 18 W."""

KIND_STEP = 0.2
"""Additional power of each kind of nodes over the previous kind, as a share of the first kind."""
KIND_SPEED = 0.8
"""Exponent of the speed of a kind of nodes as a power of its consumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Parameters of random problems."""

    name: str
    jobs: int = 200
    sizes: int = 8
    levels: int = len(CAPS_W)
    contention: float = 2.0
    """Requested over available units."""
    power_share: float = 0.8
    """Budget over the power of all units at the highest cap."""
    alpha: float = 0.98
    running_share: float = 0.3
    kinds: int = 0
    """Number of different jobs in the arrays; 0 = no arrays, all jobs differ."""
    array_share: float = 1.0
    """Share of the jobs in arrays; the others all differ."""
    equal_values: bool = False
    """Whether the n-th options of all jobs have the same value, whatever they take."""
    spread: float = 0.0
    """Maximum relative deviation of values within a kind, as after different waiting times."""
    node_kinds: int = 1
    """Number of kinds of nodes, in equal parts. If above 1, a job has its options on every kind."""


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

FAMILIES: tuple[Variant, ...] = (
    Variant(name="different"),
    Variant(name="identical", kinds=1, contention=1.9),
    Variant(name="few-classes", kinds=5),
    Variant(name="arrays-among-others", kinds=4, array_share=0.5),
    Variant(name="most-running", kinds=20, contention=1.5, running_share=0.9),
    Variant(name="tight-power", kinds=20, contention=1.0, power_share=0.3),
    Variant(name="tight-nodes", kinds=20, contention=8.0, power_share=1.1, running_share=0.05),
    Variant(name="equal-values", equal_values=True),
    Variant(name="almost-equal", kinds=1, contention=1.9, spread=1e-4),
    Variant(name="aged-array", kinds=1, contention=1.9, spread=1e-2),
)
"""Typical queues, including job arrays; an allocator has to handle all of them."""

UNLIKE_NODES: tuple[Variant, ...] = (
    Variant(name="two-kinds-of-nodes", kinds=20, node_kinds=2),
    Variant(name="four-kinds-of-nodes", kinds=20, node_kinds=4),
)
"""These have an additional row for every kind; not all are certified in time (decision 23)."""


def draw(variant: Variant, rng: np.random.Generator) -> AllocationProblem:
    """Draw a problem of a variant in which the jobs that must run always fit."""
    jobs = variant.jobs
    kind_of = _kinds(variant)
    kinds = int(kind_of.max()) + 1
    kind_size_max = np.round(2.0 ** rng.uniform(3.0, 11.0, kinds)).astype(np.int64)
    size_max = kind_size_max[kind_of]
    running = np.arange(jobs) < round(variant.running_share * jobs)
    drawn = [_options_of_job(variant, int(limit), rng) for limit in kind_size_max]
    if variant.equal_values:
        worth = max((own[2] for own in drawn), key=len)
        drawn = [(size, power, worth[: size.size]) for size, power, _ in drawn]
    columns = [drawn[kind] for kind in kind_of.tolist()]
    sizes = np.concatenate([c[0] for c in columns])
    power_uw = np.concatenate([c[1] for c in columns])
    value = np.concatenate([c[2] for c in columns])
    job_of = np.repeat(np.arange(jobs, dtype=np.int32), [c[0].size for c in columns])
    units_max = math.ceil(size_max.sum() / variant.contention)
    watts = units_max * variant.power_share * (CAPS_W[-1] + BASE_W)
    problem = AllocationProblem(
        job_of=job_of,
        units=sizes,
        power_uw=power_uw,
        value=value,
        must_run=running,
        units_max=units_max,
        power_uw_max=math.floor(watts) * 1_000_000,
    )
    if variant.spread:
        aged = 1.0 + variant.spread * rng.uniform(size=jobs)
        problem = replace(problem, value=problem.value * aged[job_of])
    problem = replace(problem, must_run=_fitting(problem))
    return problem if variant.node_kinds == 1 else _on_kinds(problem, variant.node_kinds)


def _on_kinds(problem: AllocationProblem, kinds: int) -> AllocationProblem:
    """Copy every option to each kind of nodes; faster nodes draw more. Running jobs stay.

    Running jobs are spread over the kinds in turn, as long as 80 % of the kind hold them.
    """
    order = np.argsort(np.tile(problem.job_of, kinds), kind="stable")
    kind = np.repeat(np.arange(kinds), problem.option_count)[order]
    source = np.tile(np.arange(problem.option_count), kinds)[order]
    each = problem.units_max // kinds
    home = np.arange(problem.job_count) % kinds
    least = np.minimum.reduceat(problem.units, problem.starts()[:-1]) * problem.must_run
    fits = np.zeros(problem.job_count, dtype=np.bool_)
    for one in range(kinds):
        fits |= (home == one) & (np.cumsum(least * (home == one)) <= 0.8 * each)
    must_run = problem.must_run & fits
    job_of = problem.job_of[source]
    stays = ~must_run[job_of] | (kind == home[job_of])
    kind, source, job_of = kind[stays], source[stays], job_of[stays]
    factor = 1.0 + KIND_STEP * kind
    rows = tuple(
        CapacityRow(
            option_indices=np.flatnonzero(kind == one),
            coefficients=problem.units[source[kind == one]],
            limit=each,
        )
        for one in range(kinds)
    )
    return AllocationProblem(
        job_of=job_of,
        units=problem.units[source],
        power_uw=np.round(problem.power_uw[source] * factor).astype(np.int64),
        value=problem.value[source] * factor**KIND_SPEED,
        must_run=must_run,
        units_max=each * kinds,
        power_uw_max=round(problem.power_uw_max * (1.0 + KIND_STEP * (kinds - 1) / 2)),
        rows=rows,
    )


def _kinds(variant: Variant) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the kind of each job. Arrays alternate, so that each has running and waiting jobs."""
    if not variant.kinds:
        return np.arange(variant.jobs)
    arrayed = np.arange(variant.jobs) * variant.array_share % 1.0 + variant.array_share >= 1.0
    kind = np.cumsum(~arrayed) - 1 + variant.kinds
    kind[arrayed] = np.arange(int(arrayed.sum())) % variant.kinds
    return kind


def _options_of_job(
    variant: Variant, size_max: int, rng: np.random.Generator
) -> tuple[
    np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    np.ndarray[tuple[int, ...], np.dtype[np.float64]],
]:
    """Return sizes, powers and values of all options of a random job."""
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
    )


def _fitting(problem: AllocationProblem) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Keep jobs running while their cheapest options take at most 80 % of each limit."""
    starts = problem.starts()
    units = np.minimum.reduceat(problem.units, starts[:-1])
    power_uw = np.minimum.reduceat(problem.power_uw, starts[:-1])
    fits = np.cumsum(units * problem.must_run) <= 0.8 * problem.units_max
    fits &= np.cumsum(power_uw * problem.must_run) <= 0.8 * problem.power_uw_max
    return problem.must_run & fits
