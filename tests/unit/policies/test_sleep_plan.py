"""Which nodes sleep and wake: the rules of the decision, on small numbers."""

from __future__ import annotations

import pytest

from wattfold.coordinator.policies.driver.sleep_plan import (
    Arrivals,
    IdleNodes,
    SleepRules,
    sleepers,
    wakes,
)

S, W = 1_000_000_000, 1_000_000
RULES = SleepRules(
    idle_uw=50 * W,
    asleep_uw=10 * W,
    boot_uw=150 * W,
    boot_ns=100 * S,
    boots_max=3,
    awake_min_ns=300 * S,
)


def idle(*groups: tuple[int, int]) -> list[IdleNodes]:
    """Groups of (awake and idle since, in s; count)."""
    return [IdleNodes(since_s * S, since_s * S, count) for since_s, count in groups]


def test_nodes_beyond_the_spare_ones_sleep_once_they_have_been_awake_long_enough() -> None:
    assert sleepers(RULES, idle((0, 4)), spare=1, over_uw=0, now_ns=299 * S) == [0]
    assert sleepers(RULES, idle((0, 4)), spare=1, over_uw=0, now_ns=300 * S) == [3]
    assert sleepers(RULES, idle((0, 2), (200, 4)), spare=5, over_uw=0, now_ns=300 * S) == [1, 0]


def test_nodes_that_do_not_fit_beside_the_plan_sleep_at_once() -> None:
    groups = idle((0, 2), (10, 4))
    assert sleepers(RULES, groups, spare=6, over_uw=81 * W, now_ns=20 * S) == [2, 1]
    assert sleepers(RULES, groups, spare=6, over_uw=900 * W, now_ns=20 * S) == [2, 4]


def test_a_timer_counts_idle_time() -> None:
    rules = SleepRules(idle_uw=50, asleep_uw=10, boot_uw=150, boot_ns=1, timer_ns=60 * S)
    assert sleepers(rules, idle((0, 2), (30, 1)), spare=0, over_uw=0, now_ns=60 * S) == [2, 0]


def test_boots_are_limited_by_number_and_power() -> None:
    assert wakes(RULES, wanted=9, booting=1, free_uw=10_000 * W, now_uw=10 * W) == 2
    assert wakes(RULES, wanted=9, booting=0, free_uw=281 * W, now_uw=10 * W) == 2
    assert wakes(RULES, wanted=9, booting=0, free_uw=-W, now_uw=10 * W) == 0
    assert wakes(RULES, wanted=9, booting=5, free_uw=10_000 * W, now_uw=10 * W) == 0


def test_spare_nodes_are_those_that_the_jobs_of_a_boot_time_ask_for() -> None:
    arrivals = Arrivals(100 * S)
    assert arrivals.nodes(0.8) == 0
    for at_s, nodes in ((0, 1), (50, 2), (150, 4), (1000, 3)):
        arrivals.add(at_s * S, nodes)
    # The jobs within 100 s of each arrival ask for 3, 6, 4 and 3 nodes.
    assert [arrivals.nodes(quantile) for quantile in (0.0, 0.5, 0.8, 1.0)] == [3, 4, 6, 6]


def test_powers_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="draws 60 W asleep, 50 W idle and 150 W in a boot"):
        SleepRules(idle_uw=50 * W, asleep_uw=60 * W, boot_uw=150 * W, boot_ns=1)
