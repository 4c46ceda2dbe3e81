"""Fits to synthetic measurements with known parameters."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wattfold.coordinator.figures.profile_plot import write_png
from wattfold.coordinator.models.fitting import (
    FrequencyPoint,
    ProfilePoint,
    fit,
    fit_curve,
)
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile, SizeUnit

SIZES = (1, 2, 4, 8, 12, 16, 24)
CAPS_W = (30.0, 33.0, 36.0, 44.0, 50.0, 60.0)


def known(app: str = "LeanMD") -> PassProfile:
    return replace(APPLICATIONS[app], average_parallelism=12.0, sigma=0.4, t1_s=900.0)


def measured(
    truth: PassProfile, noise: float = 0.02, sizes: tuple[int, ...] = SIZES
) -> list[ProfilePoint]:
    rng = np.random.default_rng(7)
    return [
        ProfilePoint(
            size=n, cap_w=cap, seconds=truth.time_s(n, cap) * float(np.exp(rng.normal(0, noise)))
        )
        for n in sizes
        for cap in CAPS_W
    ]


@pytest.mark.parametrize("app", ["LeanMD", "Lulesh", "AMR"])
def test_recovers_known_parameters_from_noisy_points(app: str) -> None:
    truth = known(app)
    result = fit(measured(truth), app=app, unit=SizeUnit.NODES, curve=truth.curve)
    assert result.profile.average_parallelism == pytest.approx(12.0, rel=0.1)
    assert result.profile.sigma == pytest.approx(0.4, abs=0.12)
    assert result.profile.t1_s == pytest.approx(900.0, rel=0.03)
    assert result.profile.beta == pytest.approx(truth.beta, abs=0.03)
    assert result.rms_relative_error < 0.03
    assert result.notes == ()


def test_exact_points_are_fitted_exactly() -> None:
    truth = known()
    result = fit(measured(truth, 0.0), app="x", unit=SizeUnit.NODES, curve=truth.curve)
    assert max(map(abs, result.residuals)) < 1e-5


def test_without_a_curve_times_are_still_described() -> None:
    truth = known()
    result = fit(measured(truth), app="x", unit=SizeUnit.NODES)
    assert result.rms_relative_error < 0.04
    assert any("frequencies are relative" in note for note in result.notes)
    assert result.profile.p_low_w == pytest.approx(30.0)


def test_measured_frequencies_give_the_curve() -> None:
    truth = known()
    frequencies = [
        FrequencyPoint(f_ghz=f, power_w=truth.curve.power_w(f)) for f in (1.4, 1.7, 2.0, 2.3)
    ]
    curve = fit_curve(frequencies)
    assert (curve.a, curve.b, curve.c) == pytest.approx((truth.a, truth.b, truth.c), rel=1e-3)
    result = fit(measured(truth), app="x", unit=SizeUnit.NODES, frequencies=frequencies)
    assert result.profile.a == pytest.approx(truth.a, rel=1e-3)


def test_the_same_points_give_the_same_fit() -> None:
    points = measured(known())
    first = fit(points, app="x", unit=SizeUnit.NODES)
    assert fit(points, app="x", unit=SizeUnit.NODES) == first


def test_one_point_stands_on_defaults_and_says_so() -> None:
    point = ProfilePoint(size=8, cap_w=60.0, seconds=50.0)
    result = fit([point], app="x", unit=SizeUnit.CORES, curve=known().curve)
    assert result.profile.time_s(8, 60.0) == pytest.approx(50.0, rel=1e-6)
    assert result.profile.average_parallelism == 8.0
    assert len(result.notes) == 2


def test_two_sizes_leave_sigma_at_its_default() -> None:
    truth = replace(known(), sigma=0.5)
    points = measured(truth, 0.0, sizes=(4, 16))
    result = fit(points, app="x", unit=SizeUnit.CORES, curve=truth.curve)
    assert result.profile.sigma == 0.5
    assert result.profile.average_parallelism == pytest.approx(12.0, rel=0.02)
    assert any("sigma is set to" in note for note in result.notes)


def test_caps_that_do_not_help_lower_p_high() -> None:
    truth = known("Wave2D")
    wide = replace(truth.curve, f_high_ghz=2.2)
    result = fit(measured(truth, 0.0), app="x", unit=SizeUnit.NODES, curve=wide)
    assert result.profile.p_high_w == pytest.approx(44.0)
    assert any("did not help" in note for note in result.notes)


def test_no_points_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        fit([], app="x", unit=SizeUnit.CORES)


def test_figure_is_a_png_of_the_stated_size(tmp_path: Path) -> None:
    points = measured(known())
    path = tmp_path / "profile.png"
    write_png(path, fit(points, app="x", unit=SizeUnit.NODES), points)
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(header[16:20], "big") == 1650
    assert int.from_bytes(header[20:24], "big") == 825
