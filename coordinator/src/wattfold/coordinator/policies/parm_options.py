"""What one job may be given: sizes times caps as flat arrays, with times, speedups and charges.

Built once per job and read every round. The time of every option, its power-aware speedup (Eq. 7)
and what it takes of units and power depend on the job and on the kind of its nodes, not on the
moment; only the weight of the job (Eq. 8, `parm_choice`) does. Eq. 6 is `Options.of_size`.

Numbers of nodes never matter here: like nodes are one `NodeKind`. What is built from hashable
arguments is remembered, up to a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.core.targets import CAP_STEP_UW
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

REMEMBERED = 4096
"""Jobs whose options are kept; about 5 kB each."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NodeKind:
    """What like nodes have in common: cores, and the part of a cap that idle nodes pay as well.

    ``floor_uw`` may be below zero: an idle node is then charged less than a job's node without its
    packages.
    """

    cores: int
    floor_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What an option takes of units (Eq. 4) and of power above idle (Eq. 5).

    Where nodes differ, it is charged as on the costliest kind.
    """

    kinds: tuple[NodeKind, ...]
    unit: SizeUnit
    exclusive: bool = False

    def units(self, sizes: Ints) -> Ints:
        """Cores taken at each size."""
        most = max(kind.cores for kind in self.kinds)
        if self.unit is SizeUnit.NODES:
            return sizes * most
        return np.full(sizes.shape, most, dtype=np.int64) if self.exclusive else sizes

    def power_uw(self, sizes: Ints, caps_uw: Ints) -> Ints:
        """Microwatts above the charge of idle nodes, for every option."""
        costs = []
        for kind in self.kinds:
            above_uw = np.maximum(caps_uw - kind.floor_uw, 0)
            whole = self.unit is SizeUnit.NODES
            costs.append(sizes * above_uw if whole else sizes * above_uw // kind.cores)
        most: Ints = np.maximum.reduce(costs)
        return most


@dataclass(frozen=True, slots=True, kw_only=True)
class DramLevels:
    """DRAM caps of a node to choose from, beyond the paper; ``standing_uw`` is in idle's charge."""

    caps_uw: tuple[int, ...]
    standing_uw: int
    model: DramModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """m options of one job, ordered by size, cap, DRAM cap. Arrays must not be changed."""

    size: Ints
    cap_uw: Ints
    dram_cap_uw: Ints
    """0 = the standing cap."""
    total_s: Floats
    """t[j, n, p]: the time of the whole job."""
    speedup: Floats
    """s[j, n, p] of Eq. 7, or what a cost leaves of it."""
    units: Ints
    power_uw: Ints
    slowest_s: float
    """t[j, min N_j, min P_j]."""

    def __len__(self) -> int:
        return int(self.size.size)

    @cached_property
    def efficient(self) -> Options:
        """Without options that take no less of units and power than another and are no faster.

        No plan needs them, so no plan gets worse; of equal options the first stays.
        """
        # no_dearer[i, k]: option i takes no more of either than option k.
        no_dearer = (self.units[:, None] <= self.units) & (self.power_uw[:, None] <= self.power_uw)
        better = no_dearer & (self.speedup[:, None] >= self.speedup)
        # Of two equal options each is no worse than the other: only the earlier one counts.
        beaten = better & (~better.T | np.triu(np.ones(better.shape, dtype=np.bool_), k=1))
        keep: Bools = np.logical_not(np.any(beaten, axis=0))
        return self if keep.all() else self._taken(keep)

    @cached_property
    def sizes(self) -> Ints:
        """The different sizes, ascending."""
        return np.unique(self.size)

    @cached_property
    def cheapest(self) -> int:
        """Index of the option of least power, of these the one of fewest units; -1 if empty."""
        if not len(self):
            return -1
        return int(np.lexsort((self.units, self.power_uw))[0])

    def of_size(self, size: int) -> Options:
        """Only one size (Eq. 6)."""
        keep: Bools = np.equal(self.size, size)
        return self._taken(keep)

    def _taken(self, keep: Bools) -> Options:
        return Options(
            size=self.size[keep],
            cap_uw=self.cap_uw[keep],
            dram_cap_uw=self.dram_cap_uw[keep],
            total_s=self.total_s[keep],
            speedup=self.speedup[keep],
            units=self.units[keep],
            power_uw=self.power_uw[keep],
            slowest_s=self.slowest_s,
        )


def options_of(
    profile: PassProfile,
    sizes: Sequence[int],
    caps_uw: Sequence[int],
    size_least: int,
    charge: Charge,
    dram: DramLevels | None = None,
) -> Options:
    """All combinations of these sizes, caps and DRAM caps, all ascending.

    ``size_least`` is min N_j of Eq. 7, which need not be among the sizes offered now. Without sizes
    or caps there are no options. The reference of Eq. 7 is a node whose DRAM is not held back, so
    that weights and speedups with and without DRAM caps compare.
    """
    caps_w = [w_from_uw(cap) for cap in caps_uw]
    slowest_s = profile.time_s(size_least, caps_w[0]) if caps_w else 0.0
    drams_uw = dram.caps_uw if dram else (0,)
    size, cap_uw, dram_uw = (
        grid.ravel()
        for grid in np.meshgrid(
            np.asarray(sizes, dtype=np.int64),
            np.asarray(caps_uw, dtype=np.int64),
            np.asarray(drams_uw, dtype=np.int64),
            indexing="ij",
        )
    )
    if not size.size:
        total_s = np.zeros(0)
    elif dram:
        drams_w = [w_from_uw(cap) for cap in drams_uw]
        total_s = dram.model.times_s(profile, sizes, caps_w, drams_w).ravel()
    else:
        total_s = profile.times_s(sizes, caps_w).ravel()
    # DRAM power beyond what an idle node is charged counts as a package cap that much higher.
    beyond_uw = dram_uw - dram.standing_uw if dram else 0
    return Options(
        size=size,
        cap_uw=cap_uw,
        dram_cap_uw=dram_uw,
        total_s=total_s,
        speedup=slowest_s / total_s,
        units=charge.units(size),
        power_uw=charge.power_uw(size, cap_uw + beyond_uw),
        slowest_s=slowest_s,
    )


@lru_cache(maxsize=REMEMBERED)
def remembered_options(
    profile: PassProfile,
    sizes: tuple[int, ...],
    caps_uw: tuple[int, ...],
    size_least: int,
    charge: Charge,
) -> Options:
    """`options_of`, remembered."""
    return options_of(profile, sizes, caps_uw, size_least, charge)


@lru_cache(maxsize=REMEMBERED)
def spaced_sizes(least: int, most: int, count: int) -> tuple[int, ...]:
    """N_j: up to ``count`` evenly spaced sizes, ascending; none where the least is too many."""
    count = min(count, most - least + 1)
    if count < 1:
        return ()
    spaced = np.linspace(least, most, count).round().astype(np.int64)
    return tuple(sorted(set(spaced.tolist())))


@lru_cache(maxsize=REMEMBERED)
def spaced_caps(profile: PassProfile, count: int, low_w: float, high_w: float) -> tuple[int, ...]:
    """P_j in microwatts, ascending, in steps that zones can hold."""
    levels_w = profile.levels_w(count, low_w, max(high_w, low_w))
    return tuple(sorted({uw_from_w(w) // CAP_STEP_UW * CAP_STEP_UW for w in levels_w}))
