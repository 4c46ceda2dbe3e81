"""What a job may be given: sizes times caps as flat arrays, with times, speedups and charges.

The time of every option, its power-aware speedup (Eq. 7) and what it takes of units and power
depend on the job and on the kind of its nodes, not on the moment; only the weight of the job (Eq.
8, `parm_choice`) does. Eq. 6 is `Options.of_size`.

Many jobs differ in nothing but how much work they have. They share a `Shape`: what options there
are and take, laid out once; the times of all of them are one multiplication each (`Shape.timed`).
Numbers of nodes never matter here: like nodes are one `NodeKind`. Where nodes are unlike, a job has
a set of options for each kind (`Alternative`), all in one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.core.charge import CAP_STEP_UW, held_uw, kind_gpus_uw, node_uw, share_uw
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.models.scaling import scaled_times_s
from wattfold.coordinator.policies.gpu_levels import GpuLevels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

REMEMBERED = 4096


class Level(NamedTuple):
    """Of a node: a package cap, and what DRAM takes beyond its standing cap at its own; of each GPU
    a limit, 0 = the greatest."""

    cap_uw: int
    beyond_uw: int = 0
    gpu_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What an option takes of units (Eq. 4) and of power above idle (Eq. 5), by `core.charge`.

    ``nodes`` is how many nodes, or units, of each kind a job has that spans unlike ones; empty
    where all of its nodes, however many, are of the one kind.
    """

    kinds: tuple[NodeKind, ...]
    unit: SizeUnit
    exclusive: bool = False
    nodes: tuple[int, ...] = ()
    unit_cores: int = 1
    spread: Spread = Spread.ANY
    gpus: int = 0
    """On its node, on each of its nodes, or for each of its units."""

    def units_of(self, kind: NodeKind, sizes: Ints) -> Ints:
        """Cores of nodes of one kind taken at each size."""
        if kind not in self.kinds:
            return np.zeros_like(sizes)
        if self.nodes:
            here = np.full_like(sizes, self.nodes[self.kinds.index(kind)])
            return self._units_in(kind, here)
        return self._units_in(kind, sizes)

    def _units_in(self, kind: NodeKind, sizes: Ints) -> Ints:
        """Cores taken by all that these sizes count on nodes of one kind."""
        if self.unit is SizeUnit.NODES:
            return sizes * kind.cores
        if self.unit is SizeUnit.UNITS:
            if not self.exclusive:
                return sizes * self.unit_cores
            on_one = 1 if self.spread is Spread.APART else max(kind.cores // self.unit_cores, 1)
            return -(-sizes // on_one) * kind.cores
        return np.full_like(sizes, kind.cores) if self.exclusive else sizes

    def units(self, sizes: Ints) -> Ints:
        """Cores taken at each size."""
        total: Ints = np.sum([self.units_of(kind, sizes) for kind in self.kinds], axis=0)
        return total

    def power_uw(self, sizes: Sequence[int], levels: Sequence[Level]) -> Ints:
        """Microwatts above the charge of idle nodes, of shape (sizes, levels)."""
        if self.unit is not SizeUnit.NODES:
            shares = [[self._shares_uw(size, level) for level in levels] for size in sizes]
            return np.asarray(shares, dtype=np.int64).reshape(len(sizes), len(levels))
        if not self.nodes:
            each = [self._node_uw(self.kinds[0], level) for level in levels]
            return np.multiply.outer(np.asarray(sizes, np.int64), np.asarray(each, np.int64))
        mixed = list(zip(self.kinds, self.nodes, strict=True))
        total = [sum(n * self._node_uw(kind, level) for kind, n in mixed) for level in levels]
        return np.asarray([total] * len(sizes), dtype=np.int64).reshape(len(sizes), len(total))

    def _node_uw(self, kind: NodeKind, level: Level) -> int:
        """What a whole node takes."""
        return node_uw(kind, level.cap_uw, level.beyond_uw) + self._gpus_uw(kind, 1, level)

    def _shares_uw(self, size: int, level: Level) -> int:
        """What cores or units of nodes that may be shared take."""
        total_uw = 0
        for kind, count in zip(self.kinds, self.nodes or (size,), strict=True):
            units = count if self.unit is SizeUnit.UNITS else 1
            cores = count * self.unit_cores
            total_uw += share_uw(kind, cores, level.cap_uw, level.beyond_uw)
            total_uw += self._gpus_uw(kind, units, level)
        return total_uw

    def _gpus_uw(self, kind: NodeKind, units: int, level: Level) -> int:
        return kind_gpus_uw(kind, units * self.gpus, level.gpu_uw) if self.gpus else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DramLevels:
    """DRAM caps of a node to choose from, beyond the paper; ``standing_uw`` is in idle's charge."""

    caps_uw: tuple[int, ...]
    standing_uw: int
    model: DramModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Arrays of one length, which must not be changed; or None in place of one."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All parts, of which there is at least one, one after the other."""
        columns = {one.name: [getattr(own, one.name) for own in parts] for one in fields(cls)}
        some = {n: [own for own in column if own is not None] for n, column in columns.items()}
        return cls(**{n: np.concatenate(column) if column else None for n, column in some.items()})

    def only(self, keep: Bools) -> Self:
        """Some rows."""
        rows = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{n: own[keep] for n, own in rows.items() if own is not None})


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout(Columns):
    """m options but for times, ordered by size, cap, DRAM cap, level of GPUs."""

    size: Ints
    cap_uw: Ints
    dram_cap_uw: Ints
    """0 = the standing cap."""
    gpu_uw: Ints
    """0 = the greatest limits, or no GPUs."""
    units: Ints
    power_uw: Ints
    place: Ints
    """Which of the alternatives of the job each is of."""
    units_by_kind: Ints | None = None
    """What an option takes of each kind of unlike nodes, of shape (m, kinds)."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The different sizes, ascending."""
        return tuple(np.unique(self.size).tolist())

    @cached_property
    def least(self) -> tuple[int, int]:
        """The fewest units and the least power of any option; there is one."""
        return int(self.units.min()), int(self.power_uw.min())

    def efficient(self, speedup: Floats) -> Bools:
        """Those but for what takes no less of units and power than another and is no faster.

        No plan needs them, so no plan gets worse; of equal options the first stays. Options on
        other nodes are no substitute.
        """
        # Of two equal options each is no worse than the other: only the earlier one counts.
        better = self._no_dearer & (speedup[:, None] >= speedup)
        beaten = better & (~better.T | np.triu(np.ones(better.shape, dtype=np.bool_), k=1))
        keep: Bools = np.logical_not(np.any(beaten, axis=0))
        return keep

    @cached_property
    def _no_dearer(self) -> Bools:
        """[i, k]: option i takes no more of either than option k."""
        less: Bools = (self.units[:, None] <= self.units) & (
            self.power_uw[:, None] <= self.power_uw
        )
        same: Bools = self.place[:, None] == self.place
        return less & same


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """The options of one job."""

    layout: Layout
    total_s: Floats
    """t[j, n, p]: the time of the whole job."""
    speedup: Floats
    """s[j, n, p] of Eq. 7, or what a cost leaves of it."""
    slowest_s: float
    """t[j, min N_j, min P_j]."""

    def __len__(self) -> int:
        return self.speedup.size

    @cached_property
    def efficient(self) -> Options:
        """`Layout.efficient`."""
        keep = self.layout.efficient(self.speedup)
        return self if keep.all() else self._only(keep)

    @cached_property
    def cheapest(self) -> int:
        """Index of the option of least power, of these the one of fewest units; -1 if empty."""
        if not len(self):
            return -1
        return int(np.lexsort((self.layout.units, self.layout.power_uw))[0])

    def of_size(self, size: int) -> Options:
        """Only one size (Eq. 6)."""
        return self._only(np.equal(self.layout.size, size))

    def up_to(self, size: int) -> Options:
        """Only sizes that are no greater."""
        return self._only(np.less_equal(self.layout.size, size))

    def _only(self, keep: Bools) -> Options:
        return replace(
            self,
            layout=self.layout.only(keep),
            total_s=self.total_s[keep],
            speedup=self.speedup[keep],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One set of nodes a job may get: its sizes and levels there, one level at least.

    ``profiles`` are those of the job on each kind of the charge, which are the kinds ``at`` among
    all there are.
    """

    profiles: tuple[PassProfile, ...]
    sizes: tuple[int, ...]
    caps_uw: tuple[int, ...]
    charge: Charge
    at: tuple[int, ...] = (0,)
    dram: DramLevels | None = None
    """None leaves DRAM to its standing caps."""
    gpu: GpuLevels | None = None
    """None leaves its GPUs at their greatest limits."""

    def layout(self, kinds: tuple[NodeKind, ...], place: int) -> Layout:
        """All combinations of sizes and levels; ``kinds`` for `Layout.units_by_kind`."""
        drams_uw = self.dram.caps_uw if self.dram else (0,)
        gpus_uw = self.gpu.caps_uw if self.gpu else (0,)
        standing_uw = self.dram.standing_uw if self.dram else 0
        caps = list(product(self.caps_uw, drams_uw, gpus_uw))
        levels = [Level(cap, dram - standing_uw, gpu) for cap, dram, gpu in caps]
        cap_uw, dram_cap_uw, gpu_uw = np.asarray(caps, dtype=np.int64).T
        size = np.repeat(np.asarray(self.sizes, dtype=np.int64), len(levels))
        by_kind = [self.charge.units_of(kind, size) for kind in kinds]
        return Layout(
            size=size,
            cap_uw=np.tile(cap_uw, len(self.sizes)),
            dram_cap_uw=np.tile(dram_cap_uw, len(self.sizes)),
            gpu_uw=np.tile(gpu_uw, len(self.sizes)),
            units=self.charge.units(size),
            power_uw=self.charge.power_uw(self.sizes, levels).ravel(),
            place=np.full_like(size, place),
            units_by_kind=np.stack(by_kind, axis=1) if by_kind else None,
        )

    def slowdowns(
        self,
        caps_uw: Sequence[int],
        dram: DramLevels | None = None,
        gpu: GpuLevels | None = None,
    ) -> list[Floats]:
        """On each kind what caps, and levels of DRAM and GPUs, make of the time at full power.

        A level is what a node holds of it where another kind of nodes may hold more. Time lost to
        lower limits of GPUs adds to that lost to others, as if neither hid any of the other.
        """
        apart = len(self.profiles) > 1
        found = []
        for at, (profile, kind) in enumerate(zip(self.profiles, self.charge.kinds, strict=True)):
            caps_w = [w_from_uw(held_uw(kind, cap) if apart else cap) for cap in caps_uw]
            if dram:
                drams_w = [w_from_uw(cap) for cap in dram.caps_uw]
                slow = dram.model.slowdowns(profile, caps_w, drams_w).ravel()
            else:
                slow = profile.slowdowns(caps_w)
            found.append(np.add.outer(slow, gpu.losses(at)).ravel() if gpu else slow)
        return found

    def times_s(self, t1_s: Floats, sizes: Sequence[int], slowdowns: Sequence[Floats]) -> Floats:
        """Of the jobs at all sizes and levels: as slow as on the slowest of their nodes."""
        times = [
            np.multiply.outer(
                scaled_times_s(t1_s[:, at, None], own.average_parallelism, own.sigma, sizes), slow
            ).reshape(len(t1_s), -1)
            for at, own, slow in zip(self.at, self.profiles, slowdowns, strict=True)
        ]
        result: Floats = np.maximum.reduce(times)
        return result


class Shape:
    """The options of jobs that differ in their work alone: those of all alternatives, at least one.

    ``size_least`` is min N_j of Eq. 7, which need not be among the sizes offered now; all speedups
    are over the same time, that of the slowest alternative there. That reference is a node whose
    DRAM and GPUs are not held back, so that weights and speedups with and without such levels
    compare.
    ``kinds`` are those of unlike nodes; none where all are alike.
    """

    def __init__(
        self,
        alternatives: Sequence[Alternative],
        size_least: int,
        kinds: tuple[NodeKind, ...] = (),
    ) -> None:
        self._size_least = size_least
        self.dram = alternatives[0].dram
        self._parts = [
            (one, one.slowdowns(one.caps_uw, one.dram, one.gpu), one.slowdowns(one.caps_uw[:1]))
            for one in alternatives
        ]
        layouts = [one.layout(kinds, at) for at, one in enumerate(alternatives)]
        self.layout = Layout.joined(layouts)
        self._efficient: dict[bytes, tuple[Bools, Layout]] = {}
        """By how the speedups of a job compare."""

    def timed(self, t1_s: Floats) -> list[Options]:
        """The options of jobs with so much work on each kind of nodes: shape (jobs, kinds)."""
        least = (self._size_least,)
        total = [one.times_s(t1_s, one.sizes, slow) for one, slow, _ in self._parts]
        slowest = [one.times_s(t1_s, least, slow) for one, _, slow in self._parts]
        total_s, slowest_s = np.concatenate(total, axis=1), np.maximum.reduce(slowest)
        speedup = slowest_s / total_s
        order = np.argsort(speedup, axis=1, kind="stable")
        rises = np.diff(np.take_along_axis(speedup, order, axis=1), axis=1) > 0
        rows = zip(order, rises, total_s, speedup, slowest_s[:, 0].tolist(), strict=True)
        return [self._options(*row) for row in rows]

    def _options(
        self, order: Ints, rises: Bools, total_s: Floats, speedup: Floats, slowest_s: float
    ) -> Options:
        comparing = order.tobytes() + rises.tobytes()
        found = self._efficient.get(comparing)
        if found is None:
            keep = self.layout.efficient(speedup)
            found = keep, self.layout if keep.all() else self.layout.only(keep)
            self._efficient[comparing] = found
        keep, layout = found
        out = Options(layout=self.layout, total_s=total_s, speedup=speedup, slowest_s=slowest_s)
        best = out
        if layout is not self.layout:
            best = replace(out, layout=layout, total_s=total_s[keep], speedup=speedup[keep])
        # In the place of the cached property, worked out for all jobs of the shape at once.
        vars(out)["efficient"] = best
        return out


@lru_cache(maxsize=REMEMBERED)
def spaced_sizes(least: int, most: int, count: int) -> tuple[int, ...]:
    """N_j: up to ``count`` evenly spaced sizes, ascending; none where the least is too many."""
    count = min(count, most - least + 1)
    spaced = np.linspace(least, most, max(count, 0)).round().astype(np.int64)
    return tuple(sorted(set(spaced.tolist())))


@lru_cache(maxsize=REMEMBERED)
def spaced_caps(profile: PassProfile, count: int, low_w: float, high_w: float) -> tuple[int, ...]:
    """P_j in microwatts, ascending, in steps that zones can hold."""
    levels_w = profile.levels_w(count, low_w, max(high_w, low_w))
    return tuple(sorted({uw_from_w(w) // CAP_STEP_UW * CAP_STEP_UW for w in levels_w}))
