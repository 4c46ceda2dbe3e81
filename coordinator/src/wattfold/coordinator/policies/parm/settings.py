"""Settings of PARM, and its rules in the service and in simulated pools."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattfold.contract.units import ns_from_s, uw_from_w, w_from_uw
from wattfold.coordinator.core.power.charge import CAP_STEP_UW
from wattfold.coordinator.policies.description import (
    IN_SERVICE,
    IN_SIMULATIONS,
    PolicySettings,
    patience_setting,
    setting,
)

if TYPE_CHECKING:
    from wattfold.coordinator.models.dram_model import DramModel
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


@dataclass(frozen=True, kw_only=True)
class ParmSettings(PolicySettings):
    """Settings of the policy. The published one has ``patience`` 0."""

    patience: float = patience_setting()
    alpha: float = setting(
        0.28, help="weight of waiting: small for throughput, large for fairness", within=(0, 10)
    )
    sizes: int = setting(
        8, help="maximum number of sizes to choose from for a job", within=(1, 1024)
    )
    levels: int = setting(6, help="maximum number of caps to choose from for a job", within=(1, 64))
    resize_interval_s: float = setting(
        500.0, help="minimum time between two resizes of a job", within=(0, 1e6), unit="s"
    )
    gap: float = setting(
        0.001, help="relative distance from the optimum that is accepted", within=(0, 0.5)
    )
    solver: str = setting(
        "lagrangian",
        help="solver of the integer program; lagrangian calls glpk, the reference, if it cannot "
        "prove the gap",
        choices=("lagrangian", "glpk", "highs", "greedy"),
    )
    nomm_size: str = setting(
        "min",
        help="end of the size range that parm-nomm gives a job",
        choices=("min", "max"),
        places=IN_SIMULATIONS,
    )
    gpu_levels: int = setting(
        1,
        help="number of GPU limits to choose from, from half of the maximum up; 1 = the maximum "
        "only",
        within=(1, 8),
    )
    dram_levels: int = setting(
        0,
        help="number of DRAM caps to choose from for a job; 0 = only the default DRAM cap",
        within=(0, 16),
        places=IN_SERVICE,
    )
    dram_rest_w: float = setting(
        8.0,
        help="power of the DRAM of an idle node",
        within=(0, 10_000),
        unit="W",
        places=IN_SERVICE,
    )
    dram_work_w: float = setting(
        10.0,
        help="additional DRAM power of a program that only waits for memory",
        within=(1, 10_000),
        unit="W",
        places=IN_SERVICE,
    )

    @property
    def resize_interval_ns(self) -> int:
        """Minimum time between two resizes of a job."""
        return ns_from_s(self.resize_interval_s)

    @property
    def dram_model(self) -> DramModel:
        """The power that DRAM needs on named nodes."""
        from wattfold.coordinator.models.dram_model import DramModel

        rest_w = self.dram_rest_w
        return DramModel(static_w=rest_w, full_w=rest_w + self.dram_work_w)

    def dram_levels_uw(self, least_uw: int, most_uw: int) -> tuple[int, ...]:
        """Return DRAM caps in a range, ascending; caps beyond its ends are clipped.

        They are evenly spaced from the idle power of DRAM to its maximum need.
        """
        rest_w, full_w, count = self.dram_rest_w, self.dram_model.full_w, self.dram_levels
        steps = range(1, count + 1)
        spaced = [uw_from_w(rest_w + (full_w - rest_w) * step / count) for step in steps]
        clipped = {max(min(level, most_uw), least_uw) for level in spaced}
        held = sorted({level // CAP_STEP_UW * CAP_STEP_UW for level in clipped})
        return tuple(level for level in held if level > uw_from_w(rest_w) and level >= least_uw)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmRules:
    """The settings of PARM, and what simulated pools add to them.

    With ``revisits`` the scheduler decides again when the first lock ends; the published evaluation
    decides only when a job arrives or ends. ``caps_uw`` is P_j of all jobs; None spaces the levels
    by each job's profile.

    Two rules go beyond the paper. ``resize_price`` includes resize costs in the options
    (`parm.choice`). ``dram`` adds DRAM caps to choose from in a pool; on named nodes the levels
    follow from the settings, because each kind has its own default caps (`DramOffers`).
    """

    settings: ParmSettings
    version: ParmVersion = ParmVersion.WSE
    revisits: bool = True
    caps_uw: tuple[int, ...] | None = None
    resize_price: ResizePrice | None = None
    dram: DramLevels | None = None

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
        return f"parm-{self.version.value}"


def watts_text(powers_uw: tuple[int, ...]) -> str:
    """Return powers for users."""
    return ", ".join(f"{w_from_uw(power_uw):g} W" for power_uw in powers_uw)
