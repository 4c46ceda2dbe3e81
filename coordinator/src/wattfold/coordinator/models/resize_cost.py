"""Cost of resizing a running job (PARM, SC14, section VII-A, Eq. 20 and 21).

The nodes of a job are assumed to be a cube in a 3D torus. Alternatively, the links across the
middle of its actual nodes are given (`torus.bisection_links`). This is our extension; the paper
does not specify the nodes of a job. Growing moves the share of the data that leaves each old node
over the bisection of the old nodes, and boots the processes of the new nodes. Shrinking moves the
data of the leaving nodes and boots nothing. Sizes are nodes, data in MB, bandwidths in MB/s, times
in s; the constants are from the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.coordinator.models.torus import ideal_bisection

BOOT_PER_NODE_S = 0.01904
BOOT_S = 72.73
CHARGE_FACTOR = 2.0
"""A decision charges every job that it resizes this many times the longest single resize."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A resize of a job between two numbers of nodes."""

    data_mb: float
    nodes_from: int
    nodes_to: int
    link_mb_per_s: float
    """Bandwidth of one link of the torus."""
    bisection_links: float | None = None
    """Links across the middle of the old nodes (growth) or the remaining nodes (shrink).

    None: the paper's ideal cube, 2 * nodes^(2/3).
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
        """t_c: the moved data over the bandwidth of its links, in s. Zero without a change.

        A growth follows Eq. 20. A shrink counts the data of the leaving nodes, which passes the
        bisection of the remaining nodes.
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
        """t_b, Eq. 21, in s. Zero unless the job grows."""
        if self.nodes_to <= self.nodes_from:
            return 0.0
        return (self.nodes_to - self.nodes_from) * BOOT_PER_NODE_S + BOOT_S

    @property
    def total_s(self) -> float:
        """t_se = t_b + t_c, in s."""
        return self.boot_s + self.transfer_s


def charge_s(resizes: Iterable[Resize]) -> float:
    """Return the loss of each job that is resized in one decision, in s; zero without a resize."""
    return CHARGE_FACTOR * max((resize.total_s for resize in resizes), default=0.0)
