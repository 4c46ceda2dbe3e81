"""Eq. 9-11 against hand-computed values."""

import random

import pytest

from wattfold.coordinator.models.scaling import scaled_time_s, scaled_times_s


@pytest.mark.parametrize(
    ("n", "seconds"),
    [
        (1, 100.0),
        # (100 - 100*0.5/8)/2 + 100*0.5/8 = 46.875 + 6.25
        (2, 53.125),
        # Eq. 9 at n = A: 93.75/4 + 6.25; Eq. 10: 0.5*(100 - 12.5)/4 + 25 - 6.25
        (4, 29.6875),
        # Eq. 10: 43.75/5 + 18.75
        (5, 27.5),
        # Eq. 10 at 2A - 1 = 7: 43.75/7 + 18.75 = T1/A
        (7, 25.0),
        (8, 25.0),
        (1000, 25.0),
    ],
)
def test_hand_computed(n: int, seconds: float) -> None:
    assert scaled_time_s(100.0, 4.0, 0.5, n) == pytest.approx(seconds, rel=1e-12)


def test_without_variance_scaling_is_perfect_up_to_the_parallelism() -> None:
    assert scaled_time_s(100.0, 8.0, 0.0, 5) == pytest.approx(20.0)
    assert scaled_time_s(100.0, 8.0, 0.0, 8) == pytest.approx(12.5)
    assert scaled_time_s(100.0, 8.0, 0.0, 9) == pytest.approx(12.5)


def test_a_serial_job_gains_nothing() -> None:
    assert scaled_time_s(100.0, 1.0, 1.0, 64) == 100.0


@pytest.mark.parametrize("bad", [(0.0, 4.0, 0.5, 1), (1.0, 0.9, 0.5, 1), (1.0, 4.0, 1.1, 1)])
def test_parameters_outside_the_model_are_refused(bad: tuple[float, float, float, int]) -> None:
    with pytest.raises(ValueError, match="scaling needs"):
        scaled_time_s(*bad)


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        scaled_time_s(1.0, 4.0, 0.5, 0.5)


def test_one_size_takes_to_the_last_bit_what_it_takes_among_many() -> None:
    # Results of simulations must not depend on the way their times are queried.
    draw = random.Random(5)
    for _ in range(300):
        t1_s, a, sigma = draw.uniform(0.01, 1e5), draw.uniform(1, 200), draw.random()
        sizes = [draw.uniform(1, 500) for _ in range(20)] + list(range(1, 20))
        one_by_one = [scaled_time_s(t1_s, a, sigma, n) for n in sizes]
        assert scaled_times_s(t1_s, a, sigma, sizes).tolist() == one_by_one
