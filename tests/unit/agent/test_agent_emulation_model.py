"""Power and speed of an emulated node."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wattfold.nodeagent.core.emulation_model import EmulationModel, draw


def model(**changes: float) -> EmulationModel:
    values = {
        "a": 2.63,
        "b": 8.36,
        "c": 13.0,
        "f_low_ghz": 1.2,
        "f_high_ghz": 2.0,
        "dram_idle_w": 2.0,
        "dram_dynamic_w": 6.0,
        "cpu_share": 1.0,
        "cores": 4,
    }
    return EmulationModel(**(values | changes))  # type: ignore[arg-type]


def test_without_jobs_and_without_need_the_frequency_is_highest():
    assert model().operating_point(25, 8, 0).speed == 1
    assert model().operating_point(95, 35, 4).speed == 1


def test_a_known_point_of_the_curve():
    # F(1.5) = 2.63 * 3.375 + 8.36 * 1.5 + 13 = 34.41625 W with all cores held.
    point = model().operating_point(34.41625, 35, 4)
    assert point.f_ghz == pytest.approx(1.5, abs=1e-6)
    assert point.duty == 1


def test_fewer_held_cores_may_run_faster():
    assert model().operating_point(30, 35, 2).speed > model().operating_point(30, 35, 4).speed


def test_below_the_lowest_frequency_the_duty_drops():
    point = model().operating_point(20, 35, 4)
    assert point.f_ghz == 1.2
    assert 0 < point.duty < 1
    assert model().operating_point(13, 35, 4).duty == 0


def test_a_dram_cap_slows_as_well():
    slowed = model(dram_dynamic_w=20).operating_point(95, 12, 4)
    assert slowed.f_ghz == 2.0
    assert slowed.duty == pytest.approx(0.5)


@given(
    cap=st.floats(13.1, 120),
    dram=st.floats(2.1, 40),
    held=st.integers(0, 4),
    demand=st.floats(0, 10),
    elapsed=st.floats(0.001, 1),
    dynamic=st.floats(0, 60),
)
def test_power_never_passes_a_cap_and_no_cpu_time_is_lost(
    cap, dram, held, demand, elapsed, dynamic
):
    assume(cap > 13)
    node = model(dram_dynamic_w=dynamic)
    point = node.operating_point(cap, dram, held)
    result = draw(node, point, held, demand, elapsed)
    assert result.package_w <= cap * (1 + 1e-9)
    assert result.dram_w <= dram * (1 + 1e-9)
    assert result.busy <= held + 1e-9
    charged = result.busy * elapsed * point.f_ghz / node.f_high_ghz
    bounded = min(demand - charged, max(held, 1))
    assert result.backlog_s == pytest.approx(bounded, abs=1e-9)


@given(st.floats(13.1, 120), st.floats(13.1, 120), st.integers(1, 4))
def test_speed_grows_with_the_cap(one, other, held):
    low, high = sorted((one, other))
    slow = model().operating_point(low, 40, held)
    fast = model().operating_point(high, 40, held)
    assert slow.speed <= fast.speed + 1e-9


def test_a_share_of_the_host_scales_the_quota():
    half = model(cpu_share=0.5)
    assert half.quota(2, half.operating_point(95, 35, 4)) == pytest.approx(1.0)
