"""Serial part of jobs on fewer cores for slowdown-driven: measured, or else from the profile.

Without either the job slows down in proportion to its cores, and only the sharing factor limits its
lending.
"""

from __future__ import annotations

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.amdahl import serial_of_half_ppm
from wattfold.coordinator.models.pass_model import PassProfile


def serial_of_profile_ppm(profile: PassProfile, size: int) -> int:
    """Return the share of run time that fewer cores do not stretch, fitted to half of the cores.

    ``size`` counts units of the profile. The job runs at full power.
    """
    cap_w = profile.p_high_w
    return serial_of_half_ppm(profile.part_time_s(size, 0.5, cap_w) / profile.time_s(size, cap_w))


def serial_of_ppm(view: JobView, size: int) -> int | None:
    """Return the serial share of a job with ``size`` units in full, in ppm; None = unknown."""
    if view.serial_ppm >= 0:
        return view.serial_ppm
    return None if view.profile is None else serial_of_profile_ppm(view.profile, max(size, 1))


def useful_uw(view: JobView, cap_uw: int) -> int:
    """Return the level that a job draws under a cap: at most the maximum of its profile."""
    return cap_uw if view.profile is None else min(cap_uw, uw_from_w(view.profile.p_high_w))
