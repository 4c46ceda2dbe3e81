"""Machine of a simulation: a pool of identical nodes with their powers.

Powers are in microwatts. A node without a job is charged ``idle_uw``. A node with a job is charged
its base power, its DRAM cap and the package cap of the job. The service charges idle nodes with
base power, floors and default DRAM caps, as does `Machine.of_watts` by default. The published
evaluation of PARM charges them nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict, Unpack

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.core.model.node import NodeKind, interned
from wattfold.coordinator.core.power.charge import node_uw
from wattfold.coordinator.policies.port import Site

UNLIMITED_UW = 1 << 62


class Watts(TypedDict, total=False):
    """`NodePowers` in watts, as far as they differ from the defaults."""

    base_w: float
    dram_w: float
    cap_w_min: float
    cap_w_max: float
    idle_w: float | None
    """None: as at its floor."""


def uw_of(
    base_w: float = 38.0,
    dram_w: float = 18.0,
    cap_w_min: float = 25.0,
    cap_w_max: float = 60.0,
    idle_w: float | None = None,
) -> dict[str, int]:
    """Return the fields of `NodePowers`."""
    base_uw, dram_uw, least_uw = uw_from_w(base_w), uw_from_w(dram_w), uw_from_w(cap_w_min)
    return {
        "base_uw": base_uw,
        "dram_uw": dram_uw,
        "cap_uw_min": least_uw,
        "cap_uw_max": uw_from_w(cap_w_max),
        "idle_uw": base_uw + dram_uw + least_uw if idle_w is None else uw_from_w(idle_w),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePowers:
    """Powers of a node."""

    base_uw: int = 38_000_000
    """Power of a used node outside packages and DRAM."""
    dram_uw: int = 18_000_000
    """DRAM cap of a used node."""
    cap_uw_min: int = 25_000_000
    """Floor of the packages of a node."""
    cap_uw_max: int = 60_000_000
    """Maximum package cap of a node; policies without power control use it."""
    idle_uw: int = 81_000_000
    """Charge of a node without a job."""

    def check_powers(self, where: str = "") -> None:
        """Raise ValueError if the powers contradict each other; its text begins with ``where``."""
        if not 0 < self.cap_uw_min <= self.cap_uw_max:
            raise ValueError(
                f"{where}package caps need 0 < min <= max, got {w_from_uw(self.cap_uw_min):g} and "
                f"{w_from_uw(self.cap_uw_max):g} W"
            )
        least_uw = self.busy_uw(self.cap_uw_min)
        if self.base_uw < 0 or self.dram_uw < 0 or not 0 <= self.idle_uw <= least_uw:
            raise ValueError(
                f"{where}an idle node must draw between 0 W and the power of a busy node at "
                f"its minimum cap ({w_from_uw(least_uw):g} W), got "
                f"{w_from_uw(self.idle_uw):g} W"
            )

    def busy_uw(self, cap_uw: int) -> int:
        """Return the charge of a fully used node at a package cap."""
        return self.base_uw + self.dram_uw + cap_uw

    def kind_of(self, cores: int) -> NodeKind:
        """Return the kind of such a node with this number of cores, for `core.charge`.

        Its floor is the cap at which a node with a job draws as much as an idle node is charged.
        """
        floor_uw = self.idle_uw - self.base_uw - self.dram_uw
        least_uw, most_uw = self.cap_uw_min, self.cap_uw_max
        return interned(
            NodeKind(cores=cores, floor_uw=floor_uw, most_uw=most_uw, least_uw=least_uw)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(NodePowers):
    """A pool of identical nodes. ``torus`` holds the sides of the network, () if it has none.

    A torus may have more places than nodes.
    """

    nodes: int
    memory_mb: float = 2048.0
    """Memory of a node."""
    link_mb_per_s: float = 425.0
    """Bandwidth of a link of the network."""
    torus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ValueError(f"a machine needs at least one node, got {self.nodes}")
        self.check_powers()
        size = math.prod(self.torus)
        if self.torus and size < self.nodes:
            raise ValueError(
                f"a torus of {self.torus} has {size} places, too few for {self.nodes} nodes"
            )

    @classmethod
    def of_watts(
        cls,
        nodes: int,
        *,
        memory_mb: float = 2048.0,
        link_mb_per_s: float = 425.0,
        torus: tuple[int, ...] = (),
        **watts: Unpack[Watts],
    ) -> Machine:
        """Return a machine from powers in watts. Default idle charge: the floor."""
        powers_uw = uw_of(**watts)
        return cls(
            nodes=nodes,
            memory_mb=memory_mb,
            link_mb_per_s=link_mb_per_s,
            torus=torus,
            **powers_uw,
        )

    @property
    def kind(self) -> NodeKind:
        """Kind of its nodes. They are taken whole, so each has one core."""
        return self.kind_of(1)

    def site(self, spendable_uw: int, nodes: int | None = None) -> Site:
        """Return the site: ``nodes`` or all nodes, and the power that jobs may add to their charge.

        Its maximum power is unlimited, because budgets may rise again.
        """
        count = self.nodes if nodes is None else nodes
        return Site(count=count, spendable_uw=spendable_uw, kind=self.kind, most_uw=UNLIMITED_UW)

    def dynamic_uw(self, cap_uw: int) -> int:
        """Return the power that a job at a package cap adds to the charge of an idle node."""
        return node_uw(self.kind, cap_uw)

    def data_mb(self, size_min: int) -> float:
        """Return the data of a job that a resize moves: the memory of its minimum size.

        The published evaluation does not state it; data that fits the minimum size fits all sizes.
        """
        return self.memory_mb * size_min

    @property
    def idle_total_uw(self) -> int:
        """Charge of all nodes without any job."""
        return self.nodes * self.idle_uw

    @property
    def unused_total_uw(self) -> int:
        """Power of all nodes without any job, which equals their charge."""
        return self.idle_total_uw

    @property
    def full_uw(self) -> int:
        """Charge of all nodes at their maximum cap: a budget that never binds."""
        return self.nodes * self.busy_uw(self.cap_uw_max)
