"""Validation of caps."""

import pytest

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent.core.caps import (
    CapRange,
    CapRequest,
    CapStatus,
    judge,
    lowering_first,
    passed,
    quantised,
    quantised_up,
)

LIMITS = CapRange(cap_uw_min=25_000_000, cap_uw_max=95_000_000, floor_uw=30_000_000)


def ask(watts: float) -> CapRequest:
    return CapRequest(name=ZoneName("package-0"), cap_uw=int(watts * 1e6))


@pytest.mark.parametrize(
    ("watts", "live", "status"),
    [
        (24.9, True, CapStatus.BELOW_MINIMUM),
        (25, False, CapStatus.OK),
        (30, False, CapStatus.OK),
        (30.125, False, CapStatus.NO_LEASE),
        (30.125, True, CapStatus.OK),
        (95.1, True, CapStatus.OK),
        (95.125, True, CapStatus.ABOVE_MAXIMUM),
    ],
)
def test_a_cap_is_judged_by_range_and_lease(watts, live, status):
    assert judge(ask(watts), LIMITS, lease_live=live)[0] is status


def test_a_refusal_names_the_limit():
    _, message = judge(ask(10), LIMITS, lease_live=True)
    assert message == "package-0: 10.0 W is below the minimum 25.0 W"


def test_caps_are_rounded_down_and_minima_up():
    assert quantised(40_124_999) == 40_000_000
    assert quantised_up(40_000_001) == 40_125_000
    assert quantised_up(40_000_000) == 40_000_000


def test_lower_caps_are_written_first():
    up = CapRequest(name=ZoneName("a"), cap_uw=50)
    down = CapRequest(name=ZoneName("b"), cap_uw=10)
    enforced = {ZoneName("a"): 20, ZoneName("b"): 20}
    assert lowering_first([up, down], enforced) == [down, up]


def test_a_floor_outside_the_range_is_refused():
    with pytest.raises(ValueError, match=r"floor 20.0 W is outside"):
        CapRange(cap_uw_min=25_000_000, cap_uw_max=95_000_000, floor_uw=20_000_000)


@pytest.mark.parametrize(
    ("power_w", "already", "over"),
    [(106, False, False), (106.1, False, True), (103.1, True, True), (103, True, False)],
)
def test_a_power_passes_a_cap_by_more_than_the_hardware_may_be_wrong(power_w, already, over):
    assert passed(int(power_w * 1e6), 100_000_000, already=already) is over
