"""Workload model of Lublin and Feitelson: sizes, run times and arrivals of rigid jobs.

U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics
of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003, pp. 1105-1122. The
constants are those published with the model (m_lublin99 in the Parallel Workloads Archive); this is
an independent formulation:

* Size: serial with some probability, else two to the power of a two-stage uniform draw, which is
  rounded to an integer with another probability.
* Run time: e to the power of a mixture of two gammas, whose weights depend on the size; draws above
  e^12 s, nearly two days, are repeated.
* Arrivals: e to the power of a gamma draw (again below e^13 s) is the time to the next arrival on a
  clock that runs faster by day. The weights of half hours are a gamma density over a day that
  begins at 5:00. All arrivals are sums on that clock; the inverse of its integral converts them to
  seconds.

The model has no user estimates. `generate_lublin` can add them (`overestimate`), with the f-model
of A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6), 2001: run time times U[1, f] (their f is one
less).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammainc

from wattfold.simulator.choices import LublinKind as LublinKind
from wattfold.simulator.workloads.header import Header
from wattfold.simulator.workloads.workload import Floats, Ints, Workload

LONGEST_RUN_LOG = 12.0
LONGEST_GAP_LOG = 13.0
_SLOTS = 48
_SLOT_S = 1800.0
_DAY_S = _SLOTS * _SLOT_S
_FIRST_SLOT = 11
_MED_BELOW_HIGH = 2.5
"""The authors put the bend of the size distribution 1.5 to 3.5 below its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LublinParameters:
    """Constants of the model for one kind of jobs, with the names of the publication."""

    serial_share: float
    power_of_two_share: float
    u_low: float
    u_med: float
    u_high: float
    """Binary logarithm of the maximum size."""
    u_prob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    a_arrival: float
    b_arrival: float
    a_number: float
    b_number: float
    rush_ratio: float
    """Factor from ``a_arrival`` of the rush hours to ``a_arrival`` of the whole day."""

    def for_machine(self, procs: int) -> LublinParameters:
        """Return the constants with sizes up to a machine's.

        Raises ValueError below 2 processors.
        """
        if procs < 2:
            raise ValueError(f"the Lublin model needs at least 2 processors, got {procs}")
        high = float(np.log2(procs))
        low = min(self.u_low, high)
        return replace(self, u_high=high, u_med=max(low, high - _MED_BELOW_HIGH), u_low=low)


BATCH = LublinParameters(
    serial_share=0.2927,
    power_of_two_share=0.6686,
    u_low=1.2,
    u_med=5.0,
    u_high=7.0,
    u_prob=0.875,
    a1=6.57,
    b1=0.823,
    a2=639.1,
    b2=0.0156,
    pa=-0.003,
    pb=0.6986,
    a_arrival=6.0415,
    b_arrival=0.8531,
    a_number=6.1271,
    b_number=5.2740,
    rush_ratio=1.0519,
)
INTERACTIVE = LublinParameters(
    serial_share=0.1541,
    power_of_two_share=0.625,
    u_low=1.0,
    u_med=3.0,
    u_high=5.5,
    u_prob=0.705,
    a1=3.8351,
    b1=0.6605,
    a2=7.073,
    b2=0.6856,
    pa=-0.0118,
    pb=0.9156,
    a_arrival=6.5510,
    b_arrival=0.6621,
    a_number=8.9186,
    b_number=3.6680,
    rush_ratio=0.9797,
)
COMBINED = LublinParameters(
    serial_share=0.244,
    power_of_two_share=0.576,
    u_low=0.8,
    u_med=4.5,
    u_high=7.0,
    u_prob=0.86,
    a1=4.2,
    b1=0.94,
    a2=312.0,
    b2=0.03,
    pa=-0.0054,
    pb=0.78,
    a_arrival=10.2303,
    b_arrival=0.4871,
    a_number=8.1737,
    b_number=3.9631,
    rush_ratio=1.0225,
)


_QUEUES = {LublinKind.INTERACTIVE: 0, LublinKind.BATCH: 1}
_PARAMETERS = {
    LublinKind.COMBINED: COMBINED,
    LublinKind.BATCH: BATCH,
    LublinKind.INTERACTIVE: INTERACTIVE,
}


def generate_lublin(
    jobs: int,
    seed: int,
    *,
    procs: int = 128,
    kind: LublinKind = LublinKind.COMBINED,
    overestimate: float | None = None,
) -> Workload:
    """Generate ``jobs`` jobs from midnight on, with times in whole seconds.

    With ``overestimate`` f, users request their run time times U[1, f]; None leaves estimates
    missing. For a machine of 128 processors the constants are the published constants; otherwise
    the size distribution ends at the machine's size. Queues are 0 for interactive and 1 for batch
    jobs.

    Raises:
        ValueError: no jobs, fewer than 2 processors, or an overestimate below one.
    """
    if jobs < 1:
        raise ValueError(f"a workload needs at least 1 job, got {jobs}")
    if overestimate is not None and not 1 <= overestimate < np.inf:
        raise ValueError(f"an overestimate is at least 1, got {overestimate}")
    children = np.random.SeedSequence(seed).spawn(3)
    kinds = [LublinKind.BATCH, LublinKind.INTERACTIVE] if kind is LublinKind.BOTH else [kind]
    parts = []
    for part, child in zip(kinds, children, strict=False):
        parameters = _PARAMETERS[part]
        if procs != 128:
            parameters = parameters.for_machine(procs)
        rng = np.random.default_rng(child)
        sizes = np.minimum(draw_sizes(parameters, jobs, rng), procs)
        rows = (
            np.floor(draw_arrivals_s(parameters, jobs, rng)),
            sizes.astype(np.float64),
            np.floor(draw_runs_s(parameters, sizes, rng)),
            np.full(jobs, _QUEUES.get(part, -1), dtype=np.float64),
        )
        parts.append(np.stack(rows))
    submit, size, run, queue = _merged(parts, jobs)
    columns = {"submit_s": submit, "procs": size, "requested_procs": size, "run_s": run}
    if overestimate is not None:
        factor = np.random.default_rng(children[2]).uniform(1.0, overestimate, jobs)
        columns["requested_s"] = np.ceil(run * factor)
    header = (
        Header()
        .with_value("Version", "2.2")
        .with_value("MaxProcs", procs)
        .with_note(
            f"generated by wattfold: Lublin-Feitelson model, {kind.value}, {jobs} jobs, seed {seed}"
        )
    )
    return Workload.of_columns(header, **columns, queues=queue, status=np.ones(jobs))


def _merged(parts: list[Floats], jobs: int) -> Floats:
    """Merge the first arrivals of several streams; each stream alone has enough of them."""
    rows = np.concatenate(parts, axis=1)
    order = np.argsort(rows[0], kind="stable")[:jobs]
    return np.asarray(rows[:, order])


def draw_sizes(p: LublinParameters, jobs: int, rng: np.random.Generator) -> Ints:
    """Draw the processors of each job.

    Rounding to a power of two may exceed two to the ``u_high``.
    """
    kind = rng.random(jobs)
    low_stage = rng.random(jobs) <= p.u_prob
    within = rng.random(jobs)
    power = np.where(
        low_stage,
        p.u_low + within * (p.u_med - p.u_low),
        p.u_med + within * (p.u_high - p.u_med),
    )
    is_power = kind <= p.serial_share + p.power_of_two_share
    power = np.where(is_power, np.floor(power + 0.5), power)
    sizes = np.where(kind <= p.serial_share, 1.0, np.floor(np.exp2(power) + 0.5))
    return np.asarray(sizes, dtype=np.int64)


def draw_runs_s(p: LublinParameters, sizes: Ints, rng: np.random.Generator) -> Floats:
    """Draw the run time of each job, in s, from 1 to e^12."""
    weight = np.clip(p.pa * sizes + p.pb, 0.0, 1.0)
    logs = np.full(len(sizes), np.inf)
    while (again := np.flatnonzero(logs > LONGEST_RUN_LOG)).size:
        first = rng.random(again.size) <= weight[again]
        shape, scale = np.where(first, p.a1, p.a2), np.where(first, p.b1, p.b2)
        logs[again] = rng.gamma(shape, scale)
    return np.asarray(np.exp(logs))


def slot_weights(p: LublinParameters) -> Floats:
    """Return the weight of the arrivals in each half hour from midnight on; the mean is one."""
    middles = np.arange(_FIRST_SLOT, _FIRST_SLOT + _SLOTS)
    # The distribution function of the gamma distribution, without a second to import scipy.stats.
    upper, lower = (gammainc(p.a_number, (middles + side) / p.b_number) for side in (0.5, -0.5))
    weights = np.empty(_SLOTS)
    weights[(middles - 1) % _SLOTS] = upper - lower
    return np.asarray(weights / weights.mean())


def draw_arrivals_s(p: LublinParameters, jobs: int, rng: np.random.Generator) -> Floats:
    """Draw ascending submit times, in s from midnight."""
    shape = p.a_arrival * p.rush_ratio
    logs = np.full(jobs, np.inf)
    while (again := np.flatnonzero(logs > LONGEST_GAP_LOG)).size:
        logs[again] = rng.gamma(shape, p.b_arrival, again.size)
    return on_daily_clock_s(np.cumsum(np.exp(logs)), slot_weights(p))


def on_daily_clock_s(moments_s: Floats, weights: Floats) -> Floats:
    """Return the times at which a clock of variable speed shows the given moments, in s.

    In each of the equal slots of a day the clock runs ``weights`` times as fast as real time. The
    weights average to one, so the clock gains nothing over a day.
    """
    slot_s = _DAY_S / len(weights)
    shown = np.concatenate([[0.0], np.cumsum(weights) * slot_s])
    shown[-1] = _DAY_S
    days, within = np.divmod(moments_s, _DAY_S)
    edges = np.arange(len(weights) + 1) * slot_s
    return np.asarray(days * _DAY_S + np.interp(within, shown, edges))
