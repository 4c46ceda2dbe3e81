"""What can be set of PARM, for the service and for simulated pools alike."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.policies.parm_dram import NO_LEVELS, DramChoice
from wattfold.coordinator.policies.parm_options import DramLevels


class Variant(enum.Enum):
    """The three versions of the paper."""

    WSE = "wse"
    NOSE = "nose"
    NOMM = "nomm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePrice:
    """What moving a job's data takes (Eq. 20): its data fills the memory of its least size."""

    memory_mb: float
    """Of a node."""
    link_mb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmSettings:
    """The settings of PARM.

    ``alpha`` of Eq. 8 trades throughput (small) for fairness (large). ``gap`` is the relative
    distance from the optimum at which the solver may stop. ``solver`` is ``lagrangian``, ``glpk``
    (the reference), ``highs`` or ``greedy``. ``nomm_size`` is the end of its range that noMM gives
    a job: the paper says both. ``revisits``: it is asked again when the first lock ends; the
    published evaluation decides only when a job comes or ends. ``caps_uw`` is P_j of all jobs, None
    spaces ``levels_max`` of them by each job's profile. ``resize_price`` and ``dram`` go beyond the
    paper: options that see what a resize costs (`parm_stall`), and DRAM caps to choose from, as do
    ``gpu_levels``: so many limits of GPUs to choose among (`gpu_levels`), 1 = the greatest alone.
    """

    variant: Variant = Variant.WSE
    alpha: float = 0.28
    sizes_max: int = 8
    levels_max: int = 6
    resize_interval_ns: int = 500 * NS_PER_S
    gap: float = 1e-3
    solver: str = "lagrangian"
    nomm_size: str = "min"
    revisits: bool = True
    caps_uw: tuple[int, ...] | None = None
    resize_price: ResizePrice | None = None
    dram: DramLevels | None = None
    dram_choice: DramChoice = NO_LEVELS
    """The same where nodes have names, each kind with its own standing caps (`parm_dram`)."""
    gpu_levels: int = 1

    def __post_init__(self) -> None:
        """Raises ValueError for DRAM caps at or below what DRAM draws at rest."""
        if self.dram and not w_from_uw(self.dram.caps_uw[0]) > self.dram.model.static_w:
            raise ValueError(
                f"DRAM caps must be above {self.dram.model.static_w} W, "
                f"got {watts_text(self.dram.caps_uw)}"
            )

    @property
    def name(self) -> str:
        """``parm-wse``, ``parm-nose`` or ``parm-nomm``."""
        return f"parm-{self.variant.value}"


def watts_text(powers_uw: tuple[int, ...]) -> str:
    """Powers for people."""
    return ", ".join(f"{w_from_uw(power_uw):g} W" for power_uw in powers_uw)
