"""Properties of every power curve and profile."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.models.power_curve import PowerCurve, cubic_frequency_ghz
from wattfold.coordinator.models.scaling import scaled_time_s, scaled_times_s

shares = st.floats(0.0, 1.0)
parallelisms = st.floats(1.0, 500.0)


@st.composite
def curves(draw: st.DrawFn) -> PowerCurve:
    low = draw(st.floats(0.4, 2.5))
    return PowerCurve(
        a=draw(st.floats(0.01, 50.0)),
        b=draw(st.floats(0.0, 100.0)),
        c=draw(st.floats(0.0, 200.0)),
        f_low_ghz=low,
        f_high_ghz=low + draw(st.floats(0.1, 3.0)),
    )


@st.composite
def profiles(draw: st.DrawFn) -> PassProfile:
    return PassProfile.of_curve(
        draw(curves()),
        app="any",
        unit=SizeUnit.CORES,
        average_parallelism=draw(parallelisms),
        sigma=draw(shares),
        t1_s=draw(st.floats(0.1, 1e6)),
        beta=draw(st.floats(0.0, 0.9)),
    )


@given(curves(), st.floats(0.001, 10.0))
def test_frequency_inverts_power(curve: PowerCurve, f_ghz: float) -> None:
    power_w = curve.power_w(f_ghz)
    back = cubic_frequency_ghz(curve.a, curve.b, curve.c, power_w)
    # Static power absorbs the digits of a small dynamic part.
    assert curve.power_w(back) == pytest.approx(power_w, rel=1e-12)


@given(curves(), shares)
def test_inverse_within_the_range(curve: PowerCurve, share: float) -> None:
    f_ghz = curve.f_low_ghz + share * (curve.f_high_ghz - curve.f_low_ghz)
    assert curve.frequency_ghz(curve.power_w(f_ghz)) == pytest.approx(f_ghz, rel=1e-7)


@given(parallelisms, shares)
def test_scaling_is_continuous_at_its_joins(parallelism: float, sigma: float) -> None:
    for join in (parallelism, 2 * parallelism - 1):
        after = scaled_time_s(1.0, parallelism, sigma, join * (1 + 1e-9))
        assert scaled_time_s(1.0, parallelism, sigma, join) == pytest.approx(after, rel=1e-6)


@given(parallelisms, shares)
def test_more_units_are_never_slower(parallelism: float, sigma: float) -> None:
    times = scaled_times_s(1.0, parallelism, sigma, np.arange(1, 1200))
    assert times[0] == pytest.approx(1.0)
    assert np.all(np.diff(times) <= 1e-12)


@given(profiles())
def test_a_higher_cap_is_never_slower(profile: PassProfile) -> None:
    caps = np.linspace(0.3 * profile.p_low_w, 1.5 * profile.p_high_w, 300)
    times = profile.times_s([1, 2, 64], caps)
    assert np.all(np.diff(times, axis=1) <= 1e-9 * times[:, :-1])


@given(profiles())
def test_beta_is_what_it_is_defined_as(profile: PassProfile) -> None:
    slow = profile.time_s(4, profile.p_low_w)
    fast = profile.time_s(4, profile.p_high_w)
    assert (slow - fast) / slow == pytest.approx(profile.beta, abs=1e-6)


@given(profiles(), st.integers(1, 9), st.floats(1.0, 300.0), st.floats(0.0, 300.0))
def test_levels_ascend_within_the_zone(
    profile: PassProfile, count: int, low_w: float, width_w: float
) -> None:
    levels = profile.levels_w(count, low_w, low_w + width_w)
    assert 1 <= len(levels) <= count
    assert all(low_w <= level <= low_w + width_w for level in levels)
    assert all(a < b for a, b in pairwise(levels))
