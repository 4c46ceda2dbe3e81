"""Speed of GPUs under lower limits, and epoch times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.models.gpu_curve import LEAST_CLOCK, GpuCurve
from wattfold.coordinator.models.training import EpochTime, Training

RESNET_V100 = GpuCurve(static_w=39, full_w=237, knee=0.84, beta=0.26)


@pytest.mark.parametrize(
    ("limit_w", "speed"), [(100, 0.516), (125, 0.684), (150, 0.842), (200, 0.950), (250, 1)]
)
def test_speeds_of_a_v100_are_those_measured(limit_w: float, speed: float) -> None:
    assert 1 / RESNET_V100.slowdown(limit_w) == pytest.approx(speed, abs=0.02)


def test_nothing_is_drawn_beyond_a_limit_above_static_power_and_the_least_clock() -> None:
    for limit_w in range(50, 300):
        assert RESNET_V100.draw_w(limit_w) <= min(limit_w, 237) + 1e-9


def test_without_power_for_anything_the_clock_stays_at_its_least() -> None:
    assert RESNET_V100.clock(10) == LEAST_CLOCK


@given(st.floats(0, 100), st.floats(101, 700), st.floats(0, 1), st.floats(0, 1), st.floats(1, 700))
def test_more_power_is_never_slower(
    static_w: float, full_w: float, knee: float, beta: float, limit_w: float
) -> None:
    curve = GpuCurve(static_w=static_w, full_w=full_w, knee=knee, beta=beta)
    assert curve.slowdown(limit_w) >= curve.slowdown(limit_w * 1.01) - 1e-9
    assert curve.slowdown(limit_w) >= 1
    assert curve.slowdown(full_w) == pytest.approx(1)


@pytest.mark.parametrize("wrong", [{"static_w": 300}, {"knee": 1.1}, {"beta": -0.1}])
def test_a_curve_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    given = {"static_w": 39.0, "full_w": 237.0, "knee": 0.84, "beta": 0.26} | wrong
    with pytest.raises(ValueError, match=r"within|below"):
        GpuCurve(**given)


def test_epochs_take_what_is_known_of_that_model_and_number() -> None:
    two = EpochTime(gpu_model="V100", gpus=2, seconds=60, curve=RESNET_V100)
    training = Training(epochs=10, times=(two, EpochTime(gpu_model="T4", gpus=1, seconds=300)))
    assert training.whole_s("V100", 2) == 600
    assert training.whole_s("T4", 1) == 3000
    assert training.whole_s("V100", 1) is None
    under = training.whole_s("V100", 2, 125)
    assert under is not None
    assert math.isclose(under, 600 * RESNET_V100.slowdown(125))
    with pytest.raises(ValueError, match="T4"):
        training.whole_s("T4", 1, 60)
