"""Energy counters that wrap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.plausible import COUNTER_LATE_NS
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.energy import EnergyMeter, PowerHistory, mean_power_uw, shares


def meter(range_uj: int, watts: int = 100) -> EnergyMeter:
    return EnergyMeter(range_uj=range_uj, power_uw_max=watts * 1_000_000)


def test_the_first_reading_counts_nothing():
    assert meter(100).after(42, NS_PER_S).total_uj == 0


def test_a_wrap_is_counted_once():
    before = meter(262_143_328_850).after(262_143_000_000, NS_PER_S)
    after = before.after(1_000_000, 2 * NS_PER_S)
    assert (after.total_uj, after.reset) == (328_850 + 1_000_000, False)


@pytest.mark.parametrize("found_uj", [0, 5, 999_999, 200_000_000_000], ids=str)
def test_a_step_that_no_power_makes_is_a_reset(found_uj: int):
    before = meter(262_143_328_850).after(1_000_000, NS_PER_S).after(2_000_000, 2 * NS_PER_S)
    reset = before.after(found_uj, 3 * NS_PER_S)
    assert (reset.total_uj, reset.reset) == (1_000_000, True)
    after = reset.after(found_uj + 3_000_000, 4 * NS_PER_S)
    assert (after.total_uj, after.reset) == (4_000_000, False)


def test_a_reader_that_was_stopped_for_long_does_not_see_a_reset():
    before = meter(262_143_328_850).after(0, NS_PER_S)
    assert before.after(6_000_000_000, 61 * NS_PER_S).total_uj == 6_000_000_000


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**10)), max_size=50),
    st.integers(0, 10**12),
)
def test_no_reading_counts_more_than_the_power_gives_in_the_time(readings, range_uj):
    found, now_ns = meter(range_uj), 0
    for raw_uj, elapsed_ns in readings:
        now_ns += elapsed_ns
        before_uj, found = found.total_uj, found.after(raw_uj, now_ns)
        assert 0 <= found.total_uj - before_uj <= 100 * (elapsed_ns + COUNTER_LATE_NS) // 1000


@given(st.lists(st.integers(0, 999), max_size=50), st.integers(0, 999))
def test_any_sequence_of_steps_below_the_range_is_counted_exactly(steps, start):
    found = meter(1000).after(start, 0)
    raw = start
    for step in steps:
        raw = (raw + step) % 1000
        found = found.after(raw, 0)
    assert found.total_uj == sum(steps)


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
    """After a pause of a second, a reader may take two readings in quick succession."""
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
    """The reader was delayed between counter and clock for 0.4 s of the first second."""
    history = PowerHistory()
    history.add(1_000_000_000, 24_000_000, late_ns=400_000_000)
    history.add(2_000_000_000, 80_000_000)
    assert history.mean_uw(NS_PER_S) == 56_000_000
    assert history.certain_uw(NS_PER_S, since_ns=0) == 40_000_000
    assert history.certain_uw(NS_PER_S, since_ns=700_000_000) is None
