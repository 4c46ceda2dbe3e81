"""PASS against hand-computed values and the published table."""

from dataclasses import replace

import numpy as np
import pytest

from wattfold.coordinator.models.pass_model import (
    APPLICATIONS,
    PassProfile,
    SizeUnit,
    default_profile,
)
from wattfold.coordinator.models.power_curve import PowerCurve

CURVE = PowerCurve(a=2.0, b=3.0, c=10.0, f_low_ghz=1.0, f_high_ghz=2.0)
PROFILE = PassProfile.of_curve(
    CURVE,
    app="demo",
    unit=SizeUnit.CORES,
    average_parallelism=4.0,
    sigma=0.5,
    t1_s=100.0,
    beta=0.25,
)


def test_hand_computed_between_the_ends() -> None:
    # T_h = t(2) = 53.125; W_cpu = T_h*0.25*1*2/(0.75*1) = T_h*2/3; T_mem = T_h*(1 - 1/3) = T_h*2/3.
    # At f = 1.5 (21.25 W): T_h*(2/3/1.5 + 2/3) = T_h*10/9.
    assert PROFILE.time_s(2, 21.25) == pytest.approx(53.125 * 10 / 9, rel=1e-12)


def test_ends_are_t_l_and_t_h() -> None:
    assert PROFILE.time_s(1, PROFILE.p_high_w) == pytest.approx(100.0)
    assert PROFILE.time_s(1, PROFILE.p_low_w) == pytest.approx(100.0 / 0.75)


def test_a_cap_above_p_high_does_not_help() -> None:
    assert PROFILE.time_s(3, 1000.0) == PROFILE.time_s(3, PROFILE.p_high_w)


def test_below_p_low_speed_follows_dynamic_power() -> None:
    # p_low = 15, c = 10: at 12 W two fifths of the cycles remain.
    assert PROFILE.time_s(1, 12.0) == pytest.approx(100.0 / 0.75 / 0.4)
    assert PROFILE.time_s(1, 5.0) == pytest.approx(100.0 / 0.75 * 1000.0)


def test_matrix_agrees_with_single_times() -> None:
    sizes, caps = [1, 3, 5, 9], [12.0, 15.0, 20.0, 40.0]
    matrix = PROFILE.times_s(sizes, caps)
    assert matrix.shape == (4, 4)
    single = [[PROFILE.time_s(n, cap) for cap in caps] for n in sizes]
    assert np.allclose(matrix, single, rtol=1e-14)


@pytest.mark.parametrize(("app", "speedup"), [("LeanMD", 1.667), ("Jacobi2D", 1.087)])
def test_published_speedups(app: str, speedup: float) -> None:
    profile = APPLICATIONS[app]
    ratio = profile.time_s(20, profile.p_low_w) / profile.time_s(20, profile.p_high_w)
    assert ratio == pytest.approx(speedup, abs=0.001)


def test_leanmd_breaks_the_bound_of_beta_and_still_slows_evenly() -> None:
    profile = APPLICATIONS["LeanMD"]
    assert profile.beta > 1 - profile.f_low_ghz / profile.f_high_ghz
    slowdowns = profile.slowdowns(np.linspace(profile.p_low_w, profile.p_high_w, 50))
    assert np.all(np.diff(slowdowns) < 0)
    assert slowdowns[-1] == pytest.approx(1.0)


def test_levels_span_the_useful_range() -> None:
    levels = PROFILE.levels_w(4, 5.0, 100.0)
    assert levels[0] == pytest.approx(15.0)
    assert levels[-1] == pytest.approx(32.0)
    assert len(levels) == 4
    assert list(levels) == sorted(levels)
    # Equal steps of frequency: 1, 4/3, 5/3, 2 GHz.
    assert levels[1] == pytest.approx(CURVE.power_w(4 / 3))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(40.0, 90.0, (40.0,)), (5.0, 12.0, (12.0,)), (20.0, 20.0, (20.0,))],
)
def test_levels_of_a_zone_beside_the_useful_range(
    low: float, high: float, expected: tuple[float, ...]
) -> None:
    assert PROFILE.levels_w(6, low, high) == expected


def test_default_profile_takes_the_given_time_at_the_greatest_size() -> None:
    profile = default_profile(CURVE, 16, 600.0)
    assert profile.time_s(16, 100.0) == pytest.approx(600.0)
    assert profile.beta == pytest.approx(0.25)
    assert profile.average_parallelism == 16.0
    assert default_profile(CURVE, 1, 60.0).time_s(1, 100.0) == pytest.approx(60.0)


def test_scaled_profile_has_scaled_times() -> None:
    assert PROFILE.scaled(3.0).time_s(5, 20.0) == pytest.approx(3 * PROFILE.time_s(5, 20.0))


def test_power_figures_must_agree_with_the_curve() -> None:
    with pytest.raises(ValueError, match="p_high of demo"):
        replace(PROFILE, p_high_w=45.0)


def test_beta_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="beta"):
        replace(PROFILE, beta=1.0)
