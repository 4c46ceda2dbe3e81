"""A setting selects the reading of "new jobs must finish inside mates' allocation"."""

from __future__ import annotations

import pytest
from unit.policies.snapshots import job, reasons, sizes
from unit.policies.test_slowdown_driven import at, planned, runs

from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.slowdown_driven.choice import (
    INFINITE,
    Guest,
    Lender,
    MateEnd,
    MateLimits,
    NodeLender,
    select,
    select_on_node,
)

GUEST = Guest(nodes=1, asked=10, cores=8, least=1)
"""It takes 20 s on half of the cores and delays its mate by 10 s."""


@pytest.mark.parametrize(
    ("mate_end", "left", "shares"),
    [("before", 20, True), ("before", 19, False), ("after", 10, True), ("after", 9, False)],
)
def test_a_guest_ends_by_the_end_of_its_mate(mate_end: str, left: int, shares: bool) -> None:
    limits = MateLimits(most_slowdown=INFINITE, mate_end=MateEnd(mate_end))
    whole = Lender(1, nodes=1, waited=0, asked=100, ends=left, lends=4)
    assert (select(GUEST, [whole], 0, limits) is not None) is shares
    on_node = NodeLender(1, cores=8, waited=0, asked=100, ends=left, lends=4)
    assert (select_on_node(GUEST, [on_node], 0, 0, limits) is not None) is shares


def test_the_better_reading_is_the_default_everywhere() -> None:
    entry = registry.find("slowdown-driven")
    assert entry is not None
    setting = next(one for one in entry.family.settings if one.key == "mate_end")
    assert (setting.default, setting.choices) == ("before", ("before", "after"))
    assert MateLimits().mate_end is MateEnd.BEFORE


def test_the_service_has_both_readings() -> None:
    # The mate ends in 11 s; the guest takes 20 s and delays it by 10 s.
    seen = at([runs("a", "n0:0-7", time_s=111), job("b", 1, 8, time_s=10)])
    after = planned(seen, mate_end=MateEnd.AFTER)
    assert sizes(after) == {"a": 4, "b": 4}
    assert "b" in reasons(planned(seen))
