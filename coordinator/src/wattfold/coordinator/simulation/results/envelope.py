"""A step function over time in few points: least, greatest and mean value of each stretch.

A series of a long run has more entries than a picture has columns. Taking every n-th would lose the
peaks, which are what one looks for; the envelope keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.simulation.workloads.workload import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Envelope:
    """``low[i] <= mean[i] <= high[i]`` hold from ``times[i]`` to ``times[i + 1]``."""

    times: Floats
    """One more than values."""
    low: Floats
    high: Floats
    mean: Floats
    exact: bool
    """All entries are there, so the three are the same."""


def envelope(times: Floats, values: Floats, end: float, stretches: int) -> Envelope:
    """The envelope of a function that keeps its value until the next entry, and the last to `end`.

    Exact while it has at most ``stretches`` entries, else that many stretches of the same length.
    Times must not fall. Raises ValueError for less than one stretch or unlike lengths.
    """
    if stretches < 1 or len(times) != len(values):
        raise ValueError(f"{len(times)} times, {len(values)} values, {stretches} stretches")
    inside = times <= end
    times, values = times[inside], values[inside].astype(np.float64)
    if len(times) <= stretches:
        edges = np.append(times, end) if len(times) else np.empty(0)
        return Envelope(times=edges, low=values, high=values, mean=values, exact=True)
    edges = np.linspace(float(times[0]), end, stretches + 1)
    # Entries in force within [edge, next edge): from the last at or before it, to the last before
    # the next.
    first = np.searchsorted(times, edges[:-1], side="right") - 1
    after = np.maximum(np.searchsorted(times, edges[1:], side="left"), first + 1)
    bounds = np.column_stack([first, after]).ravel()
    # reduceat takes no bound beyond the last value.
    padded = np.append(values, values[-1])
    low = np.minimum.reduceat(padded, bounds)[::2]
    high = np.maximum.reduceat(padded, bounds)[::2]
    sums = np.concatenate([[0.0], np.cumsum(np.diff(times) * values[:-1])])
    integral = np.interp(edges, times, sums) + np.maximum(edges - times[-1], 0.0) * values[-1]
    mean = np.clip(np.diff(integral) / np.diff(edges), low, high)
    return Envelope(times=edges, low=low, high=high, mean=mean, exact=False)
