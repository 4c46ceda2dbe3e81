"""Curves of GPU limits fitted to measured times."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.gpu_fitting import fit_gpu_curve

V100_RESNET = {100: 0.516, 125: 0.684, 150: 0.842, 175: 0.914, 200: 0.950, 225: 0.982, 250: 1.0}
"""Speeds of ResNet-50 on a V100 by limit in W, from the public traces of Zeus (NSDI 2023)."""


def times(curve: GpuCurve, most: float, shares: tuple[float, ...]) -> dict[float, float]:
    return {share * most: 100 * curve.slowdown(share * most) for share in shares}


def test_measured_speeds_of_a_v100_are_fitted_within_a_hundredth() -> None:
    found = fit_gpu_curve({limit: 3519 / speed for limit, speed in V100_RESNET.items()})
    assert found.rms_error < 0.01
    assert found.curve.slowdown(125) == pytest.approx(1 / 0.684, rel=0.02)


@settings(max_examples=examples(10))
@given(st.floats(0.1, 0.3), st.floats(0.7, 1.0), st.floats(0.6, 0.95), st.floats(0.05, 0.6))
def test_five_limits_are_met_where_they_were_measured(
    static: float, full: float, knee: float, beta: float
) -> None:
    """Between the measured limits several curves fit, up to 8 % apart near a knee."""
    most, shares = 300.0, (0.5, 0.6, 0.7, 0.8, 1.0)
    curve = GpuCurve(static_w=static * most, full_w=full * most, knee=knee, beta=beta)
    found = fit_gpu_curve(times(curve, most, shares))
    assert found.rms_error < 1e-4
    for share in shares:
        slower = [one.slowdown(share * most) / one.slowdown(most) for one in (curve, found.curve)]
        assert slower[1] == pytest.approx(slower[0], rel=1e-3)


def test_three_limits_tell_full_power_and_beta() -> None:
    curve = GpuCurve(static_w=45, full_w=230, knee=0.85, beta=0.4)
    found = fit_gpu_curve(times(curve, 250, (0.5, 0.7, 1.0))).curve
    assert (found.static_w, found.knee) == (pytest.approx(45), 0.85)
    assert (found.full_w, found.beta) == (
        pytest.approx(230, rel=0.01),
        pytest.approx(0.4, abs=0.01),
    )


@pytest.mark.parametrize("wrong", [{100: 1, 200: 1}, {0: 1, 100: 1, 200: 1}, {50: 0, 100: 1, 9: 1}])
def test_what_tells_no_curve_is_refused(wrong: dict[float, float]) -> None:
    with pytest.raises(ValueError, match=r"limits|above zero"):
        fit_gpu_curve(wrong)
