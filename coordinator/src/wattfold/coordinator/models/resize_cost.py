"""What changing the size of a running job costs (PARM, SC14, section VII-A, Eq. 20 and 21).

The nodes of a job are taken as a cube on a 3D torus, unless the links across the middle of its
actual nodes are given (`torus.bisection_links`; ours, the paper leaves open which nodes a job
gets). Growing moves the share of the data that leaves each old node over the bisection of the old
nodes and boots the new nodes' processes. Shrinking moves the data of the leaving nodes and boots
nothing. Sizes are nodes, data in MB, bandwidths in MB/s, times in s; the constants are the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.coordinator.models.torus import ideal_bisection

BOOT_PER_NODE_S = 0.01904
BOOT_S = 72.73
CHARGE_FACTOR = 2.0
"""A decision charges every job it resizes this many times the longest single resize."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """One job from one size to another."""

    data_mb: float
    nodes_from: int
    nodes_to: int
    link_mb_per_s: float
    """Bandwidth of one link of the torus."""
    bisection_links: float | None = None
    """Links across the middle of the nodes before a growth, or of those kept in a shrink.

    None for the paper's ideal cube, 2 * nodes^(2/3).
    """

    def __post_init__(self) -> None:
        if self.nodes_from < 1 or self.nodes_to < 1:
            raise ValueError(
                f"a running job has at least one node, got {self.nodes_from} -> {self.nodes_to}"
            )
        if not (self.data_mb >= 0 and self.link_mb_per_s > 0):
            raise ValueError(
                f"a resize needs data >= 0 MB and a link > 0 MB/s, got {self.data_mb} and "
                f"{self.link_mb_per_s}"
            )
        if self.bisection_links is not None and not self.bisection_links > 0:
            raise ValueError(f"data needs a link > 0 to move, got {self.bisection_links}")

    @property
    def transfer_s(self) -> float:
        """t_c: the data moved over the bandwidth it moves through, s. Zero when nothing changes.

        Growing is Eq. 20. A shrink is priced by the data of the nodes that leave, through the
        bisection of the nodes that stay and take it over.
        """
        per_node_mb = self.data_mb / self.nodes_from
        if self.nodes_to >= self.nodes_from:
            moved_mb = (per_node_mb - self.data_mb / self.nodes_to) * self.nodes_from
            return moved_mb / self._bisection_mb_per_s(self.nodes_from)
        moved_mb = per_node_mb * (self.nodes_from - self.nodes_to)
        return moved_mb / self._bisection_mb_per_s(self.nodes_to)

    def _bisection_mb_per_s(self, nodes: int) -> float:
        links = self.bisection_links
        return self.link_mb_per_s * (ideal_bisection(nodes) if links is None else links)

    @property
    def boot_s(self) -> float:
        """t_b, Eq. 21, s. Zero unless the job grows."""
        if self.nodes_to <= self.nodes_from:
            return 0.0
        return (self.nodes_to - self.nodes_from) * BOOT_PER_NODE_S + BOOT_S

    @property
    def total_s(self) -> float:
        """t_se = t_b + t_c, s."""
        return self.boot_s + self.transfer_s


def charge_s(resizes: Iterable[Resize]) -> float:
    """What every job resized in one decision loses, s; zero when none is."""
    return CHARGE_FACTOR * max((resize.total_s for resize in resizes), default=0.0)
