"""Tables of options of one job, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.parm_options import Alternative, Charge, Options, Shape


def options_of(
    profile: PassProfile, sizes: Sequence[int], caps_uw: Sequence[int], least: int, charge: Charge
) -> Options:
    """All combinations, on like nodes."""
    one = Alternative(
        profiles=(profile,), sizes=tuple(sizes), caps_uw=tuple(caps_uw), charge=charge
    )
    return timed(Shape([one], least), profile)


def timed(shape: Shape, profile: PassProfile, kinds: int = 1) -> Options:
    """The options of one job that has the same profile on every kind."""
    (found,) = shape.timed(np.asarray([[profile.t1_s] * kinds]))
    return found
