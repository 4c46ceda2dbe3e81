"""Settings of PARM for the service and for simulated pools."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.policies.parm.dram import NO_LEVELS, DramChoice
from wattfold.coordinator.policies.parm.options import DramLevels


class ParmVersion(enum.Enum):
    """The three versions of the paper."""

    WSE = "wse"
    NOSE = "nose"
    NOMM = "nomm"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePrice:
    """Cost of moving a job's data (Eq. 20). The data fill the memory of its minimum size."""

    memory_mb: float
    """Memory of a node."""
    link_mb_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmSettings:
    """The settings of PARM.

    ``alpha`` of Eq. 8 trades throughput (small) for fairness (large). ``gap`` is the relative
    distance from the optimum at which the solver may stop. ``solver`` is ``lagrangian``, ``glpk``
    (the reference), ``highs`` or ``greedy``. ``nomm_size`` is the end of its range that noMM gives
    a job, because the paper states both ends. With ``revisits`` the scheduler decides again when
    the first lock ends; the published evaluation decides only when a job arrives or ends.
    ``caps_uw`` is P_j of all jobs; None spaces ``levels_max`` caps by each job's profile.

    Three settings go beyond the paper. ``resize_price`` includes resize costs in the options
    (`parm.stall`). ``dram`` adds DRAM caps to choose from. ``gpu_levels`` is the number of GPU
    limits to choose from (`gpu_levels`); 1 = the maximum only. ``patience``: nodes are held for a
    job that has waited this many times its estimate (`held_nodes`); 0 = never, as published.
    """

    variant: ParmVersion = ParmVersion.WSE
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
    """The same for named nodes; each kind has its own default caps (`parm.dram`)."""
    gpu_levels: int = 1
    patience: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for DRAM caps at or below the power of idle DRAM."""
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
    """Return powers for users."""
    return ", ".join(f"{w_from_uw(power_uw):g} W" for power_uw in powers_uw)
