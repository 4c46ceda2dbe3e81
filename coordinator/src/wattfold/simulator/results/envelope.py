"""Envelope of a step function over time: minimum, maximum and mean value of each interval.

A series of a long run has more entries than a plot has columns. Every n-th entry would miss peaks,
which matter most; the envelope keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.simulator.workloads.workload import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Envelope:
    """``low[i] <= mean[i] <= high[i]`` hold from ``times[i]`` to ``times[i + 1]``."""

    times: Floats
    """One more entry than the values."""
    low: Floats
    high: Floats
    mean: Floats
    exact: bool
    """Whether all entries are included, so that the three are equal."""


def envelope(times: Floats, values: Floats, end: float, stretches: int) -> Envelope:
    """Return the envelope of a step function, which keeps its last value to `end`.

    It is exact for at most ``stretches`` entries; otherwise it has this number of intervals of
    equal length. Times must not decrease. Raises ValueError for less than one interval or different
    lengths.
    """
    if stretches < 1 or len(times) != len(values):
        raise ValueError(f"{len(times)} times, {len(values)} values, {stretches} stretches")
    inside = times <= end
    times, values = times[inside], values[inside].astype(np.float64)
    if len(times) <= stretches:
        edges = np.append(times, end) if len(times) else np.empty(0)
        return Envelope(times=edges, low=values, high=values, mean=values, exact=True)
    edges = np.linspace(float(times[0]), end, stretches + 1)
    # Entries in force within [edge, next edge): from the last entry at or before the edge to the
    # last entry before the next edge.
    first = np.searchsorted(times, edges[:-1], side="right") - 1
    after = np.maximum(np.searchsorted(times, edges[1:], side="left"), first + 1)
    bounds = np.column_stack([first, after]).ravel()
    # reduceat accepts no bound beyond the last value.
    padded = np.append(values, values[-1])
    low = np.minimum.reduceat(padded, bounds)[::2]
    high = np.maximum.reduceat(padded, bounds)[::2]
    sums = np.concatenate([[0.0], np.cumsum(np.diff(times) * values[:-1])])
    integral = np.interp(edges, times, sums) + np.maximum(edges - times[-1], 0.0) * values[-1]
    mean = np.clip(np.diff(integral) / np.diff(edges), low, high)
    return Envelope(times=edges, low=low, high=high, mean=mean, exact=False)
