"""Searches in the announced budgets, compared with looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.core.model.announced import Announced, coming_uw, limits, next_ns

TIMES = st.integers(0, 40)


@given(TIMES, st.integers(0, 15), st.dictionaries(TIMES, st.integers(1, 5), max_size=8))
def test_searched_and_counted_are_the_same(now: int, lead: int, steps: dict[int, int]) -> None:
    announced = [Announced(number=at + 1, at_ns=at, budget_uw=steps[at]) for at in sorted(steps)]

    def coming(at_ns: int) -> int:
        return min((uw for at, uw in steps.items() if at_ns < at <= at_ns + lead), default=0)

    def limit(at_ns: int) -> int:
        passed = [one.budget_uw for one in announced if one.at_ns <= at_ns]
        budget_uw = passed[-1] if passed else 6
        return min(budget_uw, coming(at_ns) or budget_uw)

    assert coming_uw(announced, now, lead) == coming(now)
    times = {at for at in steps if at > now} | {at - lead for at in steps if at - lead > now}
    assert next_ns(announced, now, lead) == min(times, default=0)
    later = [one for one in announced if one.at_ns > now]
    if later == announced:
        changes = [(at, limit(at)) for at in range(now + 1, 60) if limit(at) != limit(at - 1)]
        assert [tuple(one) for one in limits(announced, 6, now, lead)] == changes
