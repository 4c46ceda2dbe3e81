"""Settings of the backfilling passes of EASY in simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.policies.description import IN_SIMULATIONS, PolicySettings, setting

if TYPE_CHECKING:
    from wattfold.coordinator.policies.backfill.counts import Passes


@dataclass(frozen=True, kw_only=True)
class PassSettings(PolicySettings):
    """Limits of backfilling passes in pools of identical counted nodes."""

    looked: int = setting(
        0,
        help="number of jobs at the head of the queue that EASY considers in one backfilling pass; "
        "0 = all",
        within=(0, 1_000_000),
        places=IN_SIMULATIONS,
    )
    every: float = setting(
        0.0,
        help="time between two backfilling passes of EASY, between which jobs start only in order; "
        "0 = backfill at every event",
        within=(0.0, 86_400.0),
        unit="s",
        places=IN_SIMULATIONS,
    )

    @property
    def passes(self) -> Passes:
        """The limits."""
        from wattfold.coordinator.policies.backfill.counts import Passes

        return Passes(looked=self.looked, every=ns_from_s(self.every))
