"""Option tables of a single job, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.parm.options import Alternative, Charge, JobOptions, OptionShape


def options_of(
    profile: PassProfile, sizes: Sequence[int], caps_uw: Sequence[int], least: int, charge: Charge
) -> JobOptions:
    """All combinations of sizes and caps, on identical nodes."""
    one = Alternative(
        profiles=(profile,), sizes=tuple(sizes), caps_uw=tuple(caps_uw), charge=charge
    )
    return timed(OptionShape([one], least), profile)


def timed(shape: OptionShape, profile: PassProfile, kinds: int = 1) -> JobOptions:
    """The options of a job that has the same profile on every kind of node."""
    (found,) = shape.timed(np.asarray([[profile.t1_s] * kinds]))
    return found
