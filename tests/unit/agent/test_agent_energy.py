"""Energy counters that wrap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.energy import EnergyMeter, PowerHistory, mean_power_uw, shares


def test_the_first_reading_counts_nothing():
    assert EnergyMeter(range_uj=100).after(42).total_uj == 0


def test_a_wrap_is_counted_once():
    meter = EnergyMeter(range_uj=262_143_328_850).after(262_143_000_000).after(1_000_000)
    assert meter.total_uj == 328_850 + 1_000_000


@given(st.lists(st.integers(0, 999), max_size=50), st.integers(0, 999))
def test_any_sequence_of_steps_below_the_range_is_counted_exactly(steps, start):
    meter = EnergyMeter(range_uj=1000).after(start)
    raw = start
    for step in steps:
        raw = (raw + step) % 1000
        meter = meter.after(raw)
    assert meter.total_uj == sum(steps)


def test_mean_power():
    assert mean_power_uw(5_000_000, 2_000_000_000) == 2_500_000
    assert mean_power_uw(5, 0) == 0


@given(st.integers(0, 10**12), st.dictionaries(st.text(), st.integers(0, 10**12)))
def test_shares_never_exceed_the_whole(energy, weights):
    split = shares(energy, weights)
    assert split.keys() == weights.keys()
    assert sum(split.values()) <= energy


def test_power_is_a_mean_over_a_time_and_not_over_two_readings_a_moment_apart():
    history = PowerHistory()
    assert history.mean_uw(NS_PER_S) == 0
    for step in range(11):
        history.add(step * 100_000_000, step * 1_000_000)
    history.add(1_000_000_000 + 1, 10_500_000)
    assert history.mean_uw(NS_PER_S) == pytest.approx(10_500_000, rel=0.2)
    history.add(1_000_000_000 + 1, 99_000_000)
    assert history.mean_uw(NS_PER_S) < 11_000_000, "the same moment counts once"


def test_what_is_certain_of_a_power_is_not_read_off_two_readings_a_moment_apart():
    """A reader that stood still for a second reads twice in quick succession then."""
    history = PowerHistory()
    assert history.certain_uw(NS_PER_S, since_ns=0) is None
    for step in range(11):
        history.add(step * 100_000_000, step * 4_000_000)
    history.add(2_990_000_000, 119_600_000)
    history.add(3_000_000_000, 122_000_000)
    assert history.mean_uw(NS_PER_S) == pytest.approx(41_000_000)
    assert history.certain_uw(NS_PER_S, since_ns=0) == pytest.approx(41_000_000)
    assert history.certain_uw(NS_PER_S, since_ns=NS_PER_S + 1) is None


def test_a_counter_that_was_read_before_its_clock_makes_no_power():
    """The reader was kept waiting between counter and clock, for 0.4 s of the first second."""
    history = PowerHistory()
    history.add(1_000_000_000, 24_000_000, late_ns=400_000_000)
    history.add(2_000_000_000, 80_000_000)
    assert history.mean_uw(NS_PER_S) == 56_000_000
    assert history.certain_uw(NS_PER_S, since_ns=0) == 40_000_000
    assert history.certain_uw(NS_PER_S, since_ns=700_000_000) is None
