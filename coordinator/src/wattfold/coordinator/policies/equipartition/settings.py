"""Settings of `policies.equipartition.policy`."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.policies.description import PolicySettings, patience_setting, setting


@dataclass(frozen=True, kw_only=True)
class EquipartitionSettings(PolicySettings):
    """Settings of the policy."""

    patience: float = patience_setting()
    order: str = setting(
        "first-fit",
        help="order of starts: first-fit = a job may start before an earlier job that does not "
        "fit; fifo = in order of arrival",
        choices=("first-fit", "fifo"),
    )
    power: str = setting(
        "lower",
        help="reaction to a small budget: lower = all nodes at a lower cap; fewer = fewer nodes at"
        " the maximum cap",
        choices=("lower", "fewer"),
    )
    due: bool = setting(
        default=False,
        help="yes: jobs first get the size that meets their due date, then the rest is shared",
        choices=("no", "yes"),
    )
    weights: str = setting(
        "equal",
        help="shares of the rest beyond the minimum sizes: equal, or in proportion to the "
        "priorities",
        choices=("equal", "priority"),
    )
    interval_s: float = setting(
        0.0,
        help="minimum time after a resize before a job may grow again",
        within=(0.0, 1e6),
        unit="s",
    )
    costs: str = setting(
        "weigh",
        help="weigh: a job grows only if it saves more time than the resize costs",
        choices=("weigh", "ignore"),
    )

    @property
    def interval_ns(self) -> int:
        """Time after a resize in which a job does not grow; 0 = it may grow at any time."""
        return ns_from_s(self.interval_s)
