"""What slowdown-driven knows of what a job loses on fewer cores: a measurement, else its profile.

Without either a job is slowed in proportion, and lends by the sharing factor alone.
"""

from __future__ import annotations

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.models.amdahl import serial_of_half_ppm
from wattfold.coordinator.models.pass_model import PassProfile


def serial_of_profile_ppm(profile: PassProfile, size: int) -> int:
    """The share of its time that fewer cores do not stretch, so that half of them fit a profile.

    Of a job of so many units of the profile, at full power.
    """
    cap_w = profile.p_high_w
    return serial_of_half_ppm(profile.part_time_s(size, 0.5, cap_w) / profile.time_s(size, cap_w))


def serial_of_ppm(view: JobView, size: int) -> int | None:
    """The same of a job that is to have so many units in full; None = it is not known."""
    if view.serial_ppm >= 0:
        return view.serial_ppm
    return None if view.profile is None else serial_of_profile_ppm(view.profile, max(size, 1))


def useful_uw(view: JobView, cap_uw: int) -> int:
    """The level that a job draws under a cap: no more than its profile says."""
    return cap_uw if view.profile is None else min(cap_uw, uw_from_w(view.profile.p_high_w))
