"""Speed loss on fewer cores: the law in both directions, and its fit to two measured speeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.models.amdahl import (
    SERIAL_PPM_MAX,
    WHOLE_PPM,
    Speed,
    best_lent,
    delay,
    serial_of_half_ppm,
    serial_ppm,
    takes,
    work,
)

SHARES = st.integers(0, SERIAL_PPM_MAX)
CORES = st.integers(1, 128)


@given(time=st.integers(0, 10**15), cores=CORES, share=SHARES, data=st.data())
def test_work_undoes_takes(time: int, cores: int, share: int, data: st.DataObject) -> None:
    used = data.draw(st.integers(1, cores))
    assert work(takes(time, cores, used, share), cores, used, share) in (time, time + 1)
    assert takes(time, cores, cores, share) == time


@given(time=st.integers(1, 10**12), cores=CORES, share=SHARES, data=st.data())
def test_fewer_cores_never_help_and_a_greater_share_loses_less(
    time: int, cores: int, share: int, data: st.DataObject
) -> None:
    used = data.draw(st.integers(1, cores))
    linear = -(-time * cores // used)
    assert time <= takes(time, cores, used, share) <= linear
    assert takes(time, cores, used, min(share + 1000, SERIAL_PPM_MAX)) <= takes(
        time, cores, used, share
    )
    lent = data.draw(st.integers(0, cores))
    assert 0 <= delay(time, cores, lent, share) <= delay(time, cores, lent, 0) <= time


@given(cores=st.integers(2, 128), share=SHARES, data=st.data())
def test_two_exact_speeds_give_the_share_back(cores: int, share: int, data: st.DataObject) -> None:
    few = data.draw(st.integers(1, cores - 1))
    many = data.draw(st.integers(few + 1, cores))
    part = share / WHOLE_PPM
    rates = [1 / (part + (1 - part) * cores / used) for used in (few, many)]
    found = serial_ppm(Speed(few, rates[0]), Speed(many, rates[1]), cores)
    assert found == pytest.approx(share, abs=2)


def test_what_is_slowed_by_more_than_in_proportion_counts_as_in_proportion() -> None:
    assert serial_ppm(Speed(4, 1.0), Speed(8, 3.0), 8) == 0
    assert serial_ppm(Speed(4, 1.0), Speed(8, 1.0), 8) == SERIAL_PPM_MAX
    # Slower on more cores.
    assert serial_ppm(Speed(4, 2.0), Speed(8, 1.0), 8) == SERIAL_PPM_MAX
    assert serial_of_half_ppm(2.0) == 0
    assert serial_of_half_ppm(1.25) == 750_000
    with pytest.raises(ValueError, match="no two speeds"):
        serial_ppm(Speed(8, 1.0), Speed(8, 1.0), 8)


@given(cores=CORES, share=SHARES)
def test_the_best_number_to_lend_is_the_best(cores: int, share: int) -> None:
    """Owner and guest together do the most work, up to the core lost by rounding."""

    def together(lent: int) -> float:
        kept = (cores - lent) / cores
        part = share / WHOLE_PPM
        owner = kept / (part * kept + 1 - part) if kept else 0.0
        return owner + lent / cores

    best = best_lent(cores, share)
    assert cores // 2 <= best < max(cores, 2)
    most = max(map(together, range(cores + 1)))
    assert most - max(together(best), together(best + 1)) < 1e-9
