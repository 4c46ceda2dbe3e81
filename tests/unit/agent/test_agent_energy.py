"""Energy counters that wrap."""

from hypothesis import given
from hypothesis import strategies as st

from wattfold.nodeagent.core.energy import EnergyMeter, PowerWindow, mean_power_uw, shares


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


def test_power_is_not_taken_from_a_moment():
    window = PowerWindow()
    window.add(0, 0)
    window.add(1_000, 500_000)  # The counter ticked between two readings a microsecond apart.
    assert window.power_uw() == 0
    window.add(500_000_000, 5_000_000)
    assert window.power_uw() == 10_000_000


def test_power_is_that_of_the_last_second():
    window = PowerWindow()
    for step in range(31):
        window.add(step * 100_000_000, min(step, 20) * 1_000_000)
    assert window.power_uw() == 0
    window.add(3_100_000_000, 21_000_000)
    assert window.power_uw() == 1_000_000
