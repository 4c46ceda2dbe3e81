"""Eq. 18 and 19 against hand-computed values."""

import numpy as np
import pytest

from wattfold.coordinator.models.power_curve import (
    PowerCurve,
    cubic_frequencies_ghz,
    cubic_frequency_ghz,
)

CURVE = PowerCurve(a=2.0, b=3.0, c=10.0, f_low_ghz=1.0, f_high_ghz=2.0)


def test_power_is_the_cubic() -> None:
    # 2 * 8 + 3 * 2 + 10
    assert CURVE.power_w(2.0) == pytest.approx(32.0)
    assert CURVE.p_low_w == pytest.approx(15.0)
    assert CURVE.p_high_w == pytest.approx(32.0)


def test_frequency_is_the_root() -> None:
    # 2 * 1.5^3 + 3 * 1.5 + 10 = 21.25
    assert CURVE.frequency_ghz(21.25) == pytest.approx(1.5, rel=1e-12)


@pytest.mark.parametrize(("power_w", "f_ghz"), [(0.0, 1.0), (14.9, 1.0), (32.1, 2.0), (500, 2.0)])
def test_frequency_is_clamped(power_w: float, f_ghz: float) -> None:
    assert CURVE.frequency_ghz(power_w) == f_ghz


def test_root_without_a_linear_term_is_the_cube_root() -> None:
    assert cubic_frequency_ghz(2.0, 0.0, 10.0, 26.0) == pytest.approx(2.0)


def test_root_is_zero_at_or_below_static_power() -> None:
    assert cubic_frequencies_ghz(2.0, 3.0, 10.0, np.asarray([5.0, 10.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "fields",
    [{"a": 0.0}, {"b": -1.0}, {"c": -0.1}, {"f_low_ghz": 2.0}, {"f_high_ghz": float("inf")}],
)
def test_bad_parameters_are_refused(fields: dict[str, float]) -> None:
    good = {"a": 2.0, "b": 3.0, "c": 10.0, "f_low_ghz": 1.0, "f_high_ghz": 2.0}
    with pytest.raises(ValueError, match="power curve"):
        PowerCurve(**(good | fields))
