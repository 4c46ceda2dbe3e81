"""The machine a simulation runs on: a pool of like nodes with what one of them draws.

Powers are microwatts. A node without a job is charged ``idle_uw``; one with a job its base power,
its DRAM cap and the package cap of the job. The service charges idle nodes with base power, floors
and standing DRAM caps (`Machine.of_watts` does so unless told otherwise); the published evaluation
of PARM charges them nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict, Unpack

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.core.charge import node_uw
from wattfold.coordinator.core.node import NodeKind, interned
from wattfold.coordinator.policies.scheduler import Site

UNLIMITED_UW = 1 << 62


class Watts(TypedDict, total=False):
    """`NodePowers` in watts, as far as they are not the usual ones."""

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
    """The fields of `NodePowers`."""
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
    """What a node draws."""

    base_uw: int = 38_000_000
    """Power of a node outside packages and DRAM, in use."""
    dram_uw: int = 18_000_000
    """DRAM cap of a node in use."""
    cap_uw_min: int = 25_000_000
    """Floor of the packages of a node."""
    cap_uw_max: int = 60_000_000
    """Greatest package cap of a node; what a power-unaware policy runs with."""
    idle_uw: int = 81_000_000
    """Charge of a node without a job."""

    def check_powers(self, where: str = "") -> None:
        """Raises ValueError, which begins with this, unless they fit each other."""
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
        """Charge of a node all of which has jobs at a package cap."""
        return self.base_uw + self.dram_uw + cap_uw

    def kind_of(self, cores: int) -> NodeKind:
        """Such a node of so many cores, for `core.charge`.

        Its floor is the cap at which a node with a job draws what an idle one is charged.
        """
        floor_uw = self.idle_uw - self.base_uw - self.dram_uw
        least_uw, most_uw = self.cap_uw_min, self.cap_uw_max
        return interned(
            NodeKind(cores=cores, floor_uw=floor_uw, most_uw=most_uw, least_uw=least_uw)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(NodePowers):
    """Like nodes. ``torus`` are the sides of the network, () where there is none.

    A torus may have more places than there are nodes.
    """

    nodes: int
    memory_mb: float = 2048.0
    """Memory of a node."""
    link_mb_per_s: float = 425.0
    """Bandwidth of one link of the network."""
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
        """A machine in watts; an idle node is charged like one at its floor unless said."""
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
        """One of its nodes: taken whole, so it has one core."""
        return self.kind_of(1)

    def site(self, spendable_uw: int, nodes: int | None = None) -> Site:
        """Its nodes, or so many, and what jobs may add to their charge. Budgets may rise again."""
        count = self.nodes if nodes is None else nodes
        return Site(count=count, spendable_uw=spendable_uw, kind=self.kind, most_uw=UNLIMITED_UW)

    def dynamic_uw(self, cap_uw: int) -> int:
        """What a job at a package cap adds to the charge of an idle node."""
        return node_uw(self.kind, cap_uw)

    def data_mb(self, size_min: int) -> float:
        """Data of a job, which a resize moves: it fills the memory of its least size.

        The published evaluation does not state it; what fits the least size fits them all.
        """
        return self.memory_mb * size_min

    @property
    def idle_total_uw(self) -> int:
        """Charge of all nodes without any job."""
        return self.nodes * self.idle_uw

    @property
    def unused_total_uw(self) -> int:
        """What all nodes draw without any job: what they are charged."""
        return self.idle_total_uw

    @property
    def full_uw(self) -> int:
        """Charge of all nodes at their greatest cap: a budget that never binds."""
        return self.nodes * self.busy_uw(self.cap_uw_max)
