"""Options of jobs: sizes times caps as flat arrays, with times, speedups and charges.

The time of every option, its power-aware speedup (Eq. 7) and its units and power depend on the job
and on the kind of its nodes, but not on the current time. Only the weight of the job (Eq. 8,
`parm.choice`) does. Eq. 6 is `JobOptions.of_size`.

Many jobs differ only in their amount of work. They share an `OptionShape`, which holds their
options and charges and is computed once. Their times then need one multiplication each
(`OptionShape.timed`). The numbers of nodes do not matter here: identical nodes form one `NodeKind`.
If nodes are heterogeneous, a job has a set of options for each kind (`Alternative`), all in one
table.
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
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.power.charge import (
    CAP_STEP_UW,
    held_uw,
    kind_gpus_uw,
    node_uw,
    share_uw,
)
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.models.scaling import scaled_times_s
from wattfold.coordinator.policies.resources.gpu_levels import GpuLevels

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

REMEMBERED = 4096


class NodeLevels(NamedTuple):
    """Levels of a node: its package cap, its DRAM power above the default cap, and its GPU limit.

    The limit applies to each GPU; 0 = the maximum. All values are in microwatts.
    """

    cap_uw: int
    beyond_uw: int = 0
    gpu_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Units (Eq. 4) and power above idle (Eq. 5) of an option, by `core.power.charge`.

    ``nodes`` is the number of nodes, or units, of each kind for a job on heterogeneous nodes. It is
    empty if all nodes, in any number, are of the single kind.
    """

    kinds: tuple[NodeKind, ...]
    unit: SizeUnit
    exclusive: bool = False
    nodes: tuple[int, ...] = ()
    unit_cores: int = 1
    spread: Spread = Spread.ANY
    gpus: int = 0
    """GPUs on its node, on each of its nodes, or for each of its units."""

    def units_of(self, kind: NodeKind, sizes: Ints) -> Ints:
        """Return the cores on nodes of one kind at each size."""
        if kind not in self.kinds:
            return np.zeros_like(sizes)
        if self.nodes:
            here = np.full_like(sizes, self.nodes[self.kinds.index(kind)])
            return self._units_in(kind, here)
        return self._units_in(kind, sizes)

    def _units_in(self, kind: NodeKind, sizes: Ints) -> Ints:
        """Return the cores that these sizes need on nodes of one kind."""
        if self.unit is SizeUnit.NODES:
            return sizes * kind.cores
        if self.unit is SizeUnit.UNITS:
            if not self.exclusive:
                return sizes * self.unit_cores
            on_one = 1 if self.spread is Spread.APART else max(kind.cores // self.unit_cores, 1)
            return -(-sizes // on_one) * kind.cores
        return np.full_like(sizes, kind.cores) if self.exclusive else sizes

    def units(self, sizes: Ints) -> Ints:
        """Return the cores at each size."""
        total: Ints = np.sum([self.units_of(kind, sizes) for kind in self.kinds], axis=0)
        return total

    def power_uw(self, sizes: Sequence[int], levels: Sequence[NodeLevels]) -> Ints:
        """Return microwatts above the charge of idle nodes, of shape (sizes, levels)."""
        if self.unit is not SizeUnit.NODES:
            shares = [[self._shares_uw(size, level) for level in levels] for size in sizes]
            return np.asarray(shares, dtype=np.int64).reshape(len(sizes), len(levels))
        if not self.nodes:
            each = [self._node_uw(self.kinds[0], level) for level in levels]
            return np.multiply.outer(np.asarray(sizes, np.int64), np.asarray(each, np.int64))
        mixed = list(zip(self.kinds, self.nodes, strict=True))
        total = [sum(n * self._node_uw(kind, level) for kind, n in mixed) for level in levels]
        return np.asarray([total] * len(sizes), dtype=np.int64).reshape(len(sizes), len(total))

    def _node_uw(self, kind: NodeKind, level: NodeLevels) -> int:
        """Return the power of a whole node."""
        return node_uw(kind, level.cap_uw, level.beyond_uw) + self._gpus_uw(kind, 1, level)

    def _shares_uw(self, size: int, level: NodeLevels) -> int:
        """Return the power of cores or units of nodes that may be shared."""
        total_uw = 0
        for kind, count in zip(self.kinds, self.nodes or (size,), strict=True):
            units = count if self.unit is SizeUnit.UNITS else 1
            cores = count * self.unit_cores
            total_uw += share_uw(kind, cores, level.cap_uw, level.beyond_uw)
            total_uw += self._gpus_uw(kind, units, level)
        return total_uw

    def _gpus_uw(self, kind: NodeKind, units: int, level: NodeLevels) -> int:
        return kind_gpus_uw(kind, units * self.gpus, level.gpu_uw) if self.gpus else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DramLevels:
    """DRAM caps of a node to choose from, beyond the paper.

    ``standing_uw`` is the default cap, which the charge of an idle node includes.
    """

    caps_uw: tuple[int, ...]
    standing_uw: int
    model: DramModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Arrays of equal length, which must not be modified; optional arrays may be None."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the concatenation of all parts; there must be at least one."""
        columns = {one.name: [getattr(own, one.name) for own in parts] for one in fields(cls)}
        some = {n: [own for own in column if own is not None] for n, column in columns.items()}
        return cls(**{n: np.concatenate(column) if column else None for n, column in some.items()})

    def only(self, keep: Bools) -> Self:
        """Return the selected rows."""
        rows = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{n: own[keep] for n, own in rows.items() if own is not None})


@dataclass(frozen=True, kw_only=True, eq=False)
class OptionLayout(Columns):
    """m options without times, ordered by size, cap, DRAM cap and GPU level."""

    size: Ints
    cap_uw: Ints
    dram_cap_uw: Ints
    """0 = the default cap."""
    gpu_uw: Ints
    """0 = the maximum limits, or no GPUs."""
    units: Ints
    power_uw: Ints
    place: Ints
    """Index of the alternative of each option."""
    units_by_kind: Ints | None = None
    """Units of each option on each kind of heterogeneous nodes, of shape (m, kinds)."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Different sizes, ascending."""
        return tuple(np.unique(self.size).tolist())

    @cached_property
    def minimum(self) -> tuple[int, int]:
        """Minimum units and minimum power over all options; there is at least one."""
        return int(self.units.min()), int(self.power_uw.min())

    def efficient(self, speedup: Floats) -> Bools:
        """Return the options that are not dominated by another option.

        A dominated option needs at least the units and the power of another option and is not
        faster. No optimal plan needs it. Among equal options the first remains. Options on other
        nodes do not count as substitutes.
        """
        # Two equal options dominate each other: only the earlier one counts.
        better = self._no_dearer & (speedup[:, None] >= speedup)
        beaten = better & (~better.T | np.triu(np.ones(better.shape, dtype=np.bool_), k=1))
        keep: Bools = np.logical_not(np.any(beaten, axis=0))
        return keep

    @cached_property
    def _no_dearer(self) -> Bools:
        """[i, k]: option i needs at most the units and the power of option k."""
        less: Bools = (self.units[:, None] <= self.units) & (
            self.power_uw[:, None] <= self.power_uw
        )
        same: Bools = self.place[:, None] == self.place
        return less & same


@dataclass(frozen=True, kw_only=True, eq=False)
class JobOptions:
    """The options of one job."""

    layout: OptionLayout
    total_s: Floats
    """t[j, n, p]: time of the whole job, in seconds."""
    speedup: Floats
    """s[j, n, p] of Eq. 7, possibly reduced by a resize cost."""
    slowest_s: float
    """t[j, min N_j, min P_j]."""

    def __len__(self) -> int:
        return self.speedup.size

    @cached_property
    def efficient(self) -> JobOptions:
        """The options that `OptionLayout.efficient` keeps."""
        keep = self.layout.efficient(self.speedup)
        return self if keep.all() else self._only(keep)

    @cached_property
    def cheapest(self) -> int:
        """Index of the option with the lowest power, then the fewest units; -1 if empty."""
        if not len(self):
            return -1
        return int(np.lexsort((self.layout.units, self.layout.power_uw))[0])

    def of_size(self, size: int) -> JobOptions:
        """Return the options of one size (Eq. 6)."""
        return self._only(np.equal(self.layout.size, size))

    def up_to(self, size: int) -> JobOptions:
        """Return the options up to a size."""
        return self._only(np.less_equal(self.layout.size, size))

    def _only(self, keep: Bools) -> JobOptions:
        return replace(
            self,
            layout=self.layout.only(keep),
            total_s=self.total_s[keep],
            speedup=self.speedup[keep],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A set of permitted nodes for a job: its sizes and levels there, at least one level.

    ``profiles`` holds the profile of the job on each kind in the charge. ``at`` holds the indices
    of these kinds among all kinds.
    """

    profiles: tuple[PassProfile, ...]
    sizes: tuple[int, ...]
    caps_uw: tuple[int, ...]
    charge: Charge
    at: tuple[int, ...] = (0,)
    dram: DramLevels | None = None
    """None keeps DRAM at its default caps."""
    gpu: GpuLevels | None = None
    """None keeps its GPUs at their maximum limits."""

    def layout(self, kinds: tuple[NodeKind, ...], place: int) -> OptionLayout:
        """Return all combinations of sizes and levels. ``kinds`` is for `units_by_kind`."""
        drams_uw = self.dram.caps_uw if self.dram else (0,)
        gpus_uw = self.gpu.caps_uw if self.gpu else (0,)
        standing_uw = self.dram.standing_uw if self.dram else 0
        caps = list(product(self.caps_uw, drams_uw, gpus_uw))
        levels = [NodeLevels(cap, dram - standing_uw, gpu) for cap, dram, gpu in caps]
        cap_uw, dram_cap_uw, gpu_uw = np.asarray(caps, dtype=np.int64).T
        size = np.repeat(np.asarray(self.sizes, dtype=np.int64), len(levels))
        by_kind = [self.charge.units_of(kind, size) for kind in kinds]
        return OptionLayout(
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
        """Return for each kind the slowdowns at caps, DRAM levels and GPU levels.

        They are relative to full power. On several kinds, each node counts with the part of a level
        that it can hold. The time lost by lower GPU limits is added to the other losses, as if they
        did not overlap.
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
        """Return the times of jobs at all sizes and levels; the slowest node decides."""
        times = [
            np.multiply.outer(
                scaled_times_s(t1_s[:, at, None], own.average_parallelism, own.sigma, sizes), slow
            ).reshape(len(t1_s), -1)
            for at, own, slow in zip(self.at, self.profiles, slowdowns, strict=True)
        ]
        result: Floats = np.maximum.reduce(times)
        return result


class OptionShape:
    """Options of jobs that differ only in their work, over all alternatives (at least one).

    ``size_least`` is min N_j of Eq. 7 and may be missing among the sizes offered now. All speedups
    refer to the same time, on the slowest alternative at that size. In this reference, DRAM and
    GPUs are not limited, so weights and speedups with and without such levels are comparable.
    ``kinds`` are the kinds of heterogeneous nodes; empty if all nodes are identical.
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
        self.layout = OptionLayout.joined(layouts)
        self._efficient: dict[bytes, tuple[Bools, OptionLayout]] = {}
        """Results by the order of the speedups of a job."""

    def timed(self, t1_s: Floats) -> list[JobOptions]:
        """Return the options of jobs by their work on each kind of nodes: shape (jobs, kinds)."""
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
    ) -> JobOptions:
        comparing = order.tobytes() + rises.tobytes()
        found = self._efficient.get(comparing)
        if found is None:
            keep = self.layout.efficient(speedup)
            found = keep, self.layout if keep.all() else self.layout.only(keep)
            self._efficient[comparing] = found
        keep, layout = found
        out = JobOptions(layout=self.layout, total_s=total_s, speedup=speedup, slowest_s=slowest_s)
        best = out
        if layout is not self.layout:
            best = replace(out, layout=layout, total_s=total_s[keep], speedup=speedup[keep])
        # Set the cached property, which was computed for all jobs of the shape at once.
        vars(out)["efficient"] = best
        return out


@lru_cache(maxsize=REMEMBERED)
def spaced_sizes(smallest: int, most: int, count: int) -> tuple[int, ...]:
    """Return N_j: up to ``count`` evenly spaced sizes, ascending; () if ``smallest`` > ``most``."""
    count = min(count, most - smallest + 1)
    spaced = np.linspace(smallest, most, max(count, 0)).round().astype(np.int64)
    return tuple(sorted(set(spaced.tolist())))


@lru_cache(maxsize=REMEMBERED)
def spaced_caps(profile: PassProfile, count: int, low_w: float, high_w: float) -> tuple[int, ...]:
    """Return P_j in microwatts, ascending, in steps that zones can hold."""
    levels_w = profile.levels_w(count, low_w, max(high_w, low_w))
    return tuple(sorted({uw_from_w(w) // CAP_STEP_UW * CAP_STEP_UW for w in levels_w}))
