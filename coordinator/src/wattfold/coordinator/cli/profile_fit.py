"""From measured points to a stored profile: the fit of PASS, and its plot.

Imports the fitting (numpy, scipy) and matplotlib; only `profile` imports this, when it is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.coordinator.models.fitting import FitResult, ProfilePoint, fit
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.figures.profile_plot import MeasuredTime, save_profile
from wattfold.v1 import coordinator_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A profile as it is stored, the model behind it, and what the fit could not tell."""

    profile: pb.Profile
    model: PassProfile
    notes: tuple[str, ...]


def fit_points(app: str, points: Sequence[pb.ProfilePoint], now_s: float) -> Fitted:
    """Fits the points of an application sized in cores."""
    result = fit(
        [
            ProfilePoint(
                size=point.size,
                cap_w=w_from_uw(point.cap_uw),
                seconds=point.seconds,
                power_w=w_from_uw(point.power_uw),
            )
            for point in points
        ],
        app=app,
        unit=SizeUnit.CORES,
    )
    return Fitted(
        profile=_stored(result, points, now_s), model=result.profile, notes=tuple(result.notes)
    )


def plot(fitted: Fitted, path: Path) -> None:
    """Writes the picture of the fit. Raises OSError or ValueError (unknown file ending)."""
    points = [
        MeasuredTime(size=point.size, cap_w=w_from_uw(point.cap_uw), seconds=point.seconds)
        for point in fitted.profile.points
    ]
    save_profile(path, points, fitted.model.time_s, fitted.profile.app, "core")


def _stored(result: FitResult, points: Sequence[pb.ProfilePoint], now_s: float) -> pb.Profile:
    model = result.profile
    stored = pb.Profile(
        app=model.app,
        unit=pb.SIZE_UNIT_CORES,
        average_parallelism=model.average_parallelism,
        sigma=model.sigma,
        t1_s=model.t1_s,
        a=model.a,
        b=model.b,
        c=model.c,
        beta=model.beta,
        f_low_ghz=model.f_low_ghz,
        f_high_ghz=model.f_high_ghz,
        p_low_w=model.p_low_w,
        p_high_w=model.p_high_w,
        rms_error=result.rms_relative_error,
        points=points,
        source="measured",
        updated_at_s=now_s,
    )
    for point in stored.points:
        point.fitted_seconds = model.time_s(point.size, w_from_uw(point.cap_uw))
    return stored
