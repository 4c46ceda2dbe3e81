"""Conversion of measured points into a stored profile: the fit of PASS, and its plot.

It imports the fitting (numpy, scipy) and matplotlib. Only `profile` imports this module, when it
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.figures.profile_plot import write_png
from wattfold.coordinator.models.fitting import FitResult, ProfilePoint, fit
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.power_curve import PowerCurve
from wattfold.v1 import coordinator_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A stored profile, and its fit with its points."""

    profile: pb.Profile
    result: FitResult
    points: tuple[ProfilePoint, ...]


def node_curve(nodes: Iterable[pb.Node]) -> PowerCurve | None:
    """Return the common power curve of the nodes, None if they differ or do not know it."""
    models = {
        (m.a, m.b, m.c, m.f_low_ghz, m.f_high_ghz)
        for m in (node.model for node in nodes if node.HasField("model"))
    }
    if len(models) != 1:
        return None
    a, b, c, low, high = models.pop()
    return PowerCurve(a=a, b=b, c=c, f_low_ghz=low, f_high_ghz=high)


def fit_points(
    app: str,
    points: Sequence[pb.ProfilePoint],
    now_s: float,
    curve: PowerCurve | None = None,
    unit: pb.SizeUnit = pb.SIZE_UNIT_CORES,
) -> Fitted:
    """Fit the points of an application, on nodes with this power curve.

    Caps are those of a whole node (all its packages), as in jobs and assignments.
    """
    measured = tuple(
        ProfilePoint(
            size=point.size,
            cap_w=w_from_uw(point.cap_uw),
            seconds=point.seconds,
            power_w=w_from_uw(point.power_uw),
        )
        for point in points
    )
    counted = SizeUnit.NODES if unit == pb.SIZE_UNIT_NODES else SizeUnit.CORES
    result = fit(measured, app=app, unit=counted, curve=curve)
    return Fitted(profile=_stored(result, points, now_s), result=result, points=measured)


def plot(fitted: Fitted, path: Path) -> None:
    """Write the plot of the fit as PNG. Raises OSError."""
    write_png(path, fitted.result, fitted.points)


def _stored(result: FitResult, points: Sequence[pb.ProfilePoint], now_s: float) -> pb.Profile:
    model = result.profile
    stored = pb.Profile(
        app=model.app,
        unit=pb.SIZE_UNIT_NODES if model.unit is SizeUnit.NODES else pb.SIZE_UNIT_CORES,
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
