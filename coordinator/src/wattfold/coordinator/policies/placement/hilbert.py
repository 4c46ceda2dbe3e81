"""Hilbert curve through the nodes of a torus: neighbours on the curve are close in the torus.

The curve fills the smallest cube with a power of two as its side around the torus. Places outside
the torus are omitted, so two neighbours on the curve may be some hops apart if the curve leaves the
torus between them. Method: J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings
707 (2004).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.torus import NodeArray, Sides

Coordinates = list[npt.NDArray[np.int64]]


def curve_order(sides: Sides) -> NodeArray:
    """Return all places of the torus, in the order of the curve."""
    bits = max(1, (max(sides) - 1).bit_length())
    places = np.arange(math.prod(sides))
    axes = [along.astype(np.int64) for along in np.unravel_index(places, sides)]
    _untwist(axes, bits)
    _gray(axes, bits)
    return np.argsort(_interleaved(axes, bits), kind="stable").astype(np.int32)


def _untwist(axes: Coordinates, bits: int) -> None:
    """Undo the reflections and swaps of axes, from the largest cubes to the smallest."""
    first = axes[0]
    for level in range(bits - 1, 0, -1):
        low = (1 << level) - 1
        for along in axes:
            upper = (along >> level & 1).astype(np.bool_)
            swapped = np.where(upper, 0, (first ^ along) & low)
            first ^= np.where(upper, low, swapped)
            if along is not first:
                along ^= swapped


def _gray(axes: Coordinates, bits: int) -> None:
    """Convert the coordinates into the digits of the position on the curve."""
    for before, along in pairwise(axes):
        along ^= before
    flips = np.zeros_like(axes[0])
    for level in range(bits - 1, 0, -1):
        flips ^= np.where(axes[-1] >> level & 1, (1 << level) - 1, 0)
    for along in axes:
        along ^= flips


def _interleaved(axes: Coordinates, bits: int) -> npt.NDArray[np.int64]:
    place = np.zeros_like(axes[0])
    for level in range(bits - 1, -1, -1):
        for along in axes:
            place = place << 1 | (along >> level & 1)
    return place
