"""Quality of the nodes that a strategy selects after a random churn, without a scheduler.

Jobs of random sizes start, end, grow and shrink on a torus that is filled to a given share. The
seed alone determines these changes, so all strategies see the same churn.

The experiment measures the links across the middle of each new or changed allocation. It also
measures the time that the data of each resize takes through the links of the nodes involved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattfold.coordinator.models.resize_cost import Resize
from wattfold.coordinator.models.torus import Sides, bisection_links, ideal_bisection, mean_hops
from wattfold.coordinator.policies.placement.selector import NodeSelector, joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Settings of the churn.

    Sizes are drawn uniformly, and factors of resizes uniformly in their log.
    """

    sizes: tuple[int, ...] = (16, 32, 64, 100, 128, 250, 256, 512, 1000, 1024, 2048)
    """Minimum and maximum number of nodes of new jobs."""
    changes: int = 2000
    warm_up: int = 500
    """Changes at the start that are not measured."""
    load: float = 0.85
    """Maximum share of the nodes that new jobs and growth may fill."""
    resize_share: float = 0.3
    """Share of the changes that resize a running job, by a factor from 1/2 to 2."""
    memory_mb: float = 2048.0
    """Data of a job, per node of its first size."""
    link_mb_per_s: float = 425.0

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1 or self.changes <= self.warm_up:
            raise ValueError("a churn needs sizes of at least 1 and changes after its warm-up")
        if not (0 < self.load <= 1 and 0 <= self.resize_share < 1):
            raise ValueError(
                f"shares lie between 0 and 1, got load {self.load} and resizes {self.resize_share}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """Means over the measured changes; nan for a kind of change that did not occur."""

    allocations: int
    """Number of new, grown and shrunk allocations."""
    resizes: int
    bisection_ratio: float
    """Links across the middle, relative to a cube that is itself a torus."""
    hops: float
    """Hops between two nodes of a job."""
    transfer_s: float
    """Time that the data of a resize takes on the actual nodes."""
    ideal_transfer_s: float
    """The same time by the published formula for ideal cubes."""


def fragmentation(
    selector: NodeSelector[Any], nodes: int, sides: Sides, churn: Churn, seed: int
) -> Fragmentation:
    """Send a churn through a selector of ``nodes`` free nodes of a torus."""
    run = _Run(selector, nodes, sides, churn)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    for index, (kind, which, factor) in enumerate(rng.random((churn.changes, 3)).tolist()):
        if index == churn.warm_up:
            run.seen.clear()
        run.change(kind, which, 2.0 ** (2.0 * factor - 1.0))
    return run.seen.means()


@dataclass(slots=True)
class _Job:
    nodes: Any
    data_mb: float


@dataclass(slots=True)
class _Seen:
    ratios: list[float] = field(default_factory=list)
    hops: list[float] = field(default_factory=list)
    transfers: list[tuple[float, float]] = field(default_factory=list)

    def clear(self) -> None:
        self.ratios.clear()
        self.hops.clear()
        self.transfers.clear()

    def means(self) -> Fragmentation:
        actual, ideal = (_mean([pair[i] for pair in self.transfers]) for i in (0, 1))
        return Fragmentation(
            allocations=len(self.ratios),
            resizes=len(self.transfers),
            bisection_ratio=_mean(self.ratios),
            hops=_mean(self.hops),
            transfer_s=actual,
            ideal_transfer_s=ideal,
        )


class _Run:
    def __init__(self, selector: NodeSelector[Any], nodes: int, sides: Sides, churn: Churn) -> None:
        self._selector = selector
        self._sides = sides
        self._churn = churn
        self._spare = nodes - math.floor(churn.load * nodes)
        self._jobs: list[_Job] = []
        self.seen = _Seen()

    def change(self, kind: float, which: float, factor: float) -> None:
        """Make one change: a resize, a new job, or the end of a job if there is no room for a new
        job.
        """
        if self._jobs and kind < self._churn.resize_share:
            self._resize(self._jobs[int(which * len(self._jobs))], factor)
            return
        size = self._churn.sizes[int(which * len(self._churn.sizes))]
        if size + self._spare <= self._selector.free:
            nodes = self._selector.take(size)
            self._jobs.append(_Job(nodes=nodes, data_mb=len(nodes) * self._churn.memory_mb))
            self._look(nodes)
        elif self._jobs:
            self._selector.give_back(self._jobs.pop(int(which * len(self._jobs))).nodes)

    def _resize(self, job: _Job, factor: float) -> None:
        before = len(job.nodes)
        after = max(1, round(before * factor))
        after = min(after, before + max(0, self._selector.free - self._spare))
        if after == before:
            return
        through = job.nodes
        if after > before:
            job.nodes = joined(job.nodes, self._selector.grow(job.nodes, after - before))
        else:
            job.nodes, _ = self._selector.shrink(job.nodes, before - after)
            through = job.nodes
        links = float(bisection_links(self._sides, through))
        actual, ideal = (
            Resize(
                data_mb=job.data_mb,
                nodes_from=before,
                nodes_to=len(job.nodes),
                link_mb_per_s=self._churn.link_mb_per_s,
                bisection_links=bisection,
            ).transfer_s
            for bisection in (links, None)
        )
        self.seen.transfers.append((actual, ideal))
        self._look(job.nodes)

    def _look(self, nodes: Any) -> None:
        links = bisection_links(self._sides, nodes)
        self.seen.ratios.append(links / ideal_bisection(len(nodes)))
        self.seen.hops.append(mean_hops(self._sides, nodes))


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
