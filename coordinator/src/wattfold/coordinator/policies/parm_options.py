"""What one job may be given: sizes times caps as flat arrays, with times, speedups and charges.

Built once per job and read every round. The time of every option, its power-aware speedup (Eq. 7)
and what it takes of units and power depend on the job and on the kind of its nodes, not on the
moment; only the weight of the job (Eq. 8, `parm_choice`) does. Eq. 6 is `Options.of_size`.

Numbers of nodes never matter here: like nodes are one `NodeKind`. Where nodes are unlike, a job has
a set of options for each kind (`Alternative`), all in one table. What is built from hashable
arguments is remembered, up to a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.core.charge import CAP_STEP_UW, held_uw, node_uw, share_uw
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

REMEMBERED = 4096
"""Jobs whose options are kept; about 5 kB each."""


Level = tuple[int, int]
"""A package cap, and what DRAM takes beyond its standing cap at its own; of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What an option takes of units (Eq. 4) and of power above idle (Eq. 5), by `core.charge`.

    ``nodes`` is how many nodes of each kind a job has that spans unlike ones; empty where all of
    its nodes, however many, are of the one kind.
    """

    kinds: tuple[NodeKind, ...]
    unit: SizeUnit
    exclusive: bool = False
    nodes: tuple[int, ...] = ()

    def units_of(self, kind: NodeKind, sizes: Ints) -> Ints:
        """Cores of nodes of one kind taken at each size."""
        if kind not in self.kinds:
            return np.zeros_like(sizes)
        if self.nodes:
            here = self.nodes[self.kinds.index(kind)]
            return np.full_like(sizes, here * kind.cores)
        if self.unit is SizeUnit.NODES:
            return sizes * kind.cores
        return np.full_like(sizes, kind.cores) if self.exclusive else sizes

    def units(self, sizes: Ints) -> Ints:
        """Cores taken at each size."""
        total: Ints = np.sum([self.units_of(kind, sizes) for kind in self.kinds], axis=0)
        return total

    def power_uw(self, sizes: Sequence[int], levels: Sequence[Level]) -> Ints:
        """Microwatts above the charge of idle nodes, of shape (sizes, levels)."""
        if self.unit is not SizeUnit.NODES:
            (kind,) = self.kinds
            shares = [[share_uw(kind, size, *level) for level in levels] for size in sizes]
            return np.asarray(shares, dtype=np.int64).reshape(len(sizes), len(levels))
        if not self.nodes:
            each = [node_uw(self.kinds[0], *level) for level in levels]
            return np.multiply.outer(np.asarray(sizes, np.int64), np.asarray(each, np.int64))
        mixed = list(zip(self.kinds, self.nodes, strict=True))
        total = [sum(n * node_uw(kind, *level) for kind, n in mixed) for level in levels]
        return np.asarray([total] * len(sizes), dtype=np.int64).reshape(len(sizes), len(total))


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
    place: Ints
    """Which of the alternatives joined (`joined`); zeros for one alone."""
    units_by_kind: Ints | None = None
    """What an option takes of each kind of unlike nodes, of shape (m, kinds)."""

    def __len__(self) -> int:
        return int(self.size.size)

    @cached_property
    def efficient(self) -> Options:
        """Without options that take no less of units and power than another and are no faster.

        No plan needs them, so no plan gets worse; of equal options the first stays. Options on
        other nodes are no substitute.
        """
        # no_dearer[i, k]: option i takes no more of either than option k.
        no_dearer = (self.units[:, None] <= self.units) & (self.power_uw[:, None] <= self.power_uw)
        better = no_dearer & (self.speedup[:, None] >= self.speedup)
        if self.units_by_kind is not None:
            better &= self.place[:, None] == self.place
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

    def up_to(self, size: int) -> Options:
        """Only sizes that are no greater."""
        keep: Bools = np.less_equal(self.size, size)
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
            place=self.place[keep],
            units_by_kind=None if self.units_by_kind is None else self.units_by_kind[keep],
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
    beyond_uw = [cap - dram.standing_uw for cap in drams_uw] if dram else [0]
    levels = [(cap, beyond) for cap in caps_uw for beyond in beyond_uw]
    return Options(
        size=size,
        cap_uw=cap_uw,
        dram_cap_uw=dram_uw,
        total_s=total_s,
        speedup=slowest_s / total_s,
        units=charge.units(size),
        power_uw=charge.power_uw(sizes, levels).ravel(),
        slowest_s=slowest_s,
        place=np.zeros_like(size),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One set of nodes a job may get, where nodes are unlike: its sizes and levels there.

    ``profiles`` are those of the job on each kind of the charge. ``dram`` None leaves DRAM to its
    standing caps.
    """

    profiles: tuple[PassProfile, ...]
    sizes: tuple[int, ...]
    caps_uw: tuple[int, ...]
    charge: Charge
    dram: DramLevels | None = None

    def options(self, size_least: int) -> Options:
        """`options_of`; a job on unlike nodes is as slow as on the slowest of them."""
        first, *others = zip(self.profiles, self.charge.kinds, strict=True)
        sizes, caps_uw, dram = self.sizes, self.caps_uw, self.dram
        table = options_of(first[0], sizes, caps_uw, size_least, self.charge, dram)
        if not others:
            return table
        times = [_held_times_s(*one, sizes, caps_uw, dram) for one in (first, *others)]
        least = [_held_times_s(*one, (size_least,), self.caps_uw[:1]) for one in (first, *others)]
        total_s = np.maximum.reduce(times).ravel()
        slowest_s = float(max(time[0, 0] for time in least))
        return replace(table, total_s=total_s, slowest_s=slowest_s, speedup=slowest_s / total_s)


def _held_times_s(
    profile: PassProfile,
    kind: NodeKind,
    sizes: tuple[int, ...],
    caps_uw: tuple[int, ...],
    dram: DramLevels | None = None,
) -> Floats:
    caps_w = [w_from_uw(held_uw(kind, cap)) for cap in caps_uw]
    if dram is None:
        return profile.times_s(sizes, caps_w)
    return dram.model.times_s(profile, sizes, caps_w, [w_from_uw(cap) for cap in dram.caps_uw])


@lru_cache(maxsize=REMEMBERED)
def joined(
    alternatives: tuple[Alternative, ...], size_least: int, kinds: tuple[NodeKind, ...]
) -> Options:
    """The options of all alternatives, at least one, as one table. Remembered.

    ``kinds`` are those of all nodes, for `Options.units_by_kind`. All speedups are over the same
    time, that of the slowest alternative (Eq. 7).
    """
    tables = [one.options(size_least) for one in alternatives]
    slowest_s = max(table.slowest_s for table in tables)
    total_s = np.concatenate([table.total_s for table in tables])
    by_kind = [
        np.stack([one.charge.units_of(kind, table.size) for kind in kinds], axis=1)
        for one, table in zip(alternatives, tables, strict=True)
    ]
    return Options(
        size=np.concatenate([table.size for table in tables]),
        cap_uw=np.concatenate([table.cap_uw for table in tables]),
        dram_cap_uw=np.concatenate([table.dram_cap_uw for table in tables]),
        total_s=total_s,
        speedup=slowest_s / total_s,
        units=np.concatenate([table.units for table in tables]),
        power_uw=np.concatenate([table.power_uw for table in tables]),
        slowest_s=slowest_s,
        place=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
        units_by_kind=np.concatenate(by_kind),
    )


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
