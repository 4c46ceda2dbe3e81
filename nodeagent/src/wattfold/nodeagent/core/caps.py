"""Checks of a requested cap: range, lease, quantisation.

A request below the minimum is refused and never raised, because a silently raised cap would break
the budget of the coordinator. Values are rounded down to the step of the hardware, so that the
value read back equals the value written.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import ZoneName
from wattfold.contract.units import w_from_uw

CAP_STEP_UW = 125_000
"""RAPL stores limits in eighths of a watt (Linux intel_rapl, power unit 1/8 W)."""


_TOLERANCE = 20
"""Hardware is accurate to about 5 %."""
_NOISE_UW = 1_000_000


class ZoneKind(enum.Enum):
    """Part of the hardware that a zone supplies."""

    PACKAGE = "package"
    DRAM = "dram"
    PSYS = "psys"
    GPU = "gpu"


class CapStatus(enum.Enum):
    """Result of one requested cap."""

    OK = "ok"
    BELOW_MINIMUM = "below-minimum"
    ABOVE_MAXIMUM = "above-maximum"
    DEVICE_ERROR = "device-error"
    UNKNOWN_ZONE = "unknown-zone"
    NO_LEASE = "no-lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRange:
    """The range of caps of a zone, and its fallback. All are multiples of the step."""

    cap_uw_min: int
    cap_uw_max: int
    floor_uw: int

    def __post_init__(self) -> None:
        if not 0 < self.cap_uw_min <= self.floor_uw <= self.cap_uw_max:
            raise ValueError(
                f"floor {w_from_uw(self.floor_uw)} W is outside the range of the zone,"
                f" {w_from_uw(self.cap_uw_min)}..{w_from_uw(self.cap_uw_max)} W"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRequest:
    """A cap requested by the coordinator."""

    name: ZoneName
    cap_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapOutcome:
    """The answer to one requested cap; ``enforced_uw`` was read back.

    ``not_held_uw``: the mean power under the previous cap, if the zone exceeded it; otherwise 0.
    """

    name: ZoneName
    requested_uw: int
    enforced_uw: int
    status: CapStatus
    message: str = ""
    settles_in_ns: int = 0
    not_held_uw: int = 0


def quantised(cap_uw: int) -> int:
    """Return the highest cap of the hardware that is not above ``cap_uw``, microwatts."""
    return cap_uw // CAP_STEP_UW * CAP_STEP_UW


def quantised_up(cap_uw: int) -> int:
    """Return the lowest multiple of the step that is not below ``cap_uw``, microwatts."""
    return -(-cap_uw // CAP_STEP_UW) * CAP_STEP_UW


def judge(request: CapRequest, limits: CapRange, *, lease_live: bool) -> tuple[CapStatus, str]:
    """Return OK if the cap may be written; otherwise the status and a message with the limit."""
    cap_uw = quantised(request.cap_uw)
    if cap_uw < limits.cap_uw_min:
        return CapStatus.BELOW_MINIMUM, _outside(request, "below the minimum", limits.cap_uw_min)
    if cap_uw > limits.cap_uw_max:
        return CapStatus.ABOVE_MAXIMUM, _outside(request, "above the maximum", limits.cap_uw_max)
    if cap_uw > limits.floor_uw and not lease_live:
        floor_w = w_from_uw(limits.floor_uw)
        return CapStatus.NO_LEASE, (
            f"{request.name}: {w_from_uw(request.cap_uw)} W is above the floor {floor_w} W and the"
            " node has no live lease: renew the lease first"
        )
    return CapStatus.OK, ""


def passed(power_uw: int, cap_uw: int, *, already: bool = False) -> bool:
    """Whether the mean power over a settled window shows that the zone exceeds its cap.

    ``already``: it exceeded the cap before. The tolerance is then halved, so that a power near the
    threshold is not reported repeatedly.
    """
    tolerance_uw = cap_uw // _TOLERANCE + _NOISE_UW
    return power_uw > cap_uw + (tolerance_uw // 2 if already else tolerance_uw)


def lowering_first(
    requests: list[CapRequest], enforced_uw: dict[ZoneName, int]
) -> list[CapRequest]:
    """Return the order of writes in which the sum of the caps never exceeds both its end values."""
    return sorted(requests, key=lambda r: r.cap_uw > enforced_uw.get(r.name, 0))


def _outside(request: CapRequest, how: str, limit_uw: int) -> str:
    return f"{request.name}: {w_from_uw(request.cap_uw)} W is {how} {w_from_uw(limit_uw)} W"
