"""In any sequence of ends, starts and operator commands, the true limits stay within the budget.

`scripts/trial_budget` tries many sequences. This test runs a sequence with most of the possible
events of a site. A function judges the samples; tests with made-up samples check that it finds a
single excess.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.agent.behaving_trees import why_no_fuse
from system.orders.judge import (
    BudgetOrder,
    EmergencyLimit,
    Facts,
    Machine,
    Sample,
    Verdict,
    Zone,
    judge,
)
from system.orders.nodes_site import LEASE_S
from system.orders.trial import line, tried
from system.site.live_site import CPUS

S = 1_000_000_000
W = 1_000_000
TWO = [
    Machine(node_id=name, base_uw=10 * W, zones=(Zone(uw_min=5 * W, uw_max=50 * W),))
    for name in ("n0", "n1")
]


def facts(budget_w: int = 100) -> Facts:
    return Facts(budgets=[BudgetOrder(called_ns=0, kept_from_ns=0, budget_uw=budget_w * W)])


def at(second: float, *limits_w: int, energy_j: int = 0) -> Sample:
    return Sample(
        at_ns=int(second * S),
        limits_uw=tuple(limit * W for limit in limits_w),
        energy_uj=(energy_j * W,) * len(limits_w),
    )


def above(verdict: Verdict) -> list[float]:
    return [found.from_ns / S for found in verdict.violations]


def test_one_sample_above_is_found_with_what_was_done_before() -> None:
    known = facts()
    known.note(S, "stop agent n0")
    samples = [at(0, 40, 40), at(2, 40, 41), at(3, 40, 40)]
    found = judge(TWO, samples, known).violations
    assert [(v.samples, v.sum_uw, v.budget_uw) for v in found] == [(1, 101 * W, 100 * W)]
    assert found[0].before == ("1.00 s before: stop agent n0",)


def test_limits_count_as_the_hardware_clips_them() -> None:
    assert not above(judge(TWO, [at(0, 30, 900)], facts()))
    assert above(judge(TWO, [at(0, 76, 0)], facts(74))) == [0]


def test_a_lower_budget_counts_from_its_deadline_on_and_a_later_order_does_not_put_it_off() -> None:
    known = facts()
    known.budgets.append(BudgetOrder(called_ns=S, kept_from_ns=6 * S, budget_uw=80 * W))
    known.budgets.append(BudgetOrder(called_ns=4 * S, kept_from_ns=9 * S, budget_uw=90 * W))
    samples = [at(second, 40, 40) for second in (2, 5, 7, 10)]
    assert above(judge(TWO, samples, known)) == [7]
    assert above(judge(TWO, [at(7, 35, 35), at(10, 35, 36)], known)) == [10]


def test_an_emergency_counts_from_its_deadline_until_it_is_over() -> None:
    known = facts()
    limit = EmergencyLimit(limit_uw=70 * W, kept_from_ns=3 * S, until_ns=6 * S)
    known.emergencies.append(limit)
    samples = [at(second, 30, 30) for second in (2, 4, 7)]
    assert above(judge(TWO, samples, known)) == [4]
    limit.until_ns = 0
    assert above(judge(TWO, samples, known)) == [4]
    assert not above(judge(TWO, [at(5, 25, 25)], known))


def test_a_node_that_was_forgotten_counts_again_from_its_return_on() -> None:
    known = facts(60)
    known.excuse("n1", 2 * S)
    known.count_again("n1", 4 * S)
    verdict = judge(TWO, [at(second, 40, 40) for second in (1, 3, 5)], known)
    assert above(verdict) == [1, 5]


def test_the_mean_power_is_that_of_the_counters() -> None:
    verdict = judge(TWO, [at(1, 40, 40), at(2, 40, 40, energy_j=35)], facts())
    assert verdict.mean_ratio_max == pytest.approx((35 + 10) * 2 / 100)


def test_a_machine_that_is_off_or_boots_counts_with_its_power_and_not_with_its_limits() -> None:
    known = facts()
    known.draws("n1", 2 * S, 3 * W)
    known.draws("n1", 4 * S, 60 * W)
    known.draws("n1", 6 * S, None)
    samples = [at(second, 40, 50) for second in (1, 3, 5, 7)]
    found = judge(TWO, samples, known).violations
    assert [(v.from_ns // S, v.until_ns // S) for v in found] == [(1, 1), (5, 7)]
    verdict = judge(TWO, [at(3, 40, 50), at(4, 40, 50, energy_j=35)], known)
    assert verdict.mean_ratio_max == pytest.approx((35 + 10 + 60) / 100)


AWAY_S = LEASE_S + 2
"""Time until other nodes have received the power above the floors of a node without an agent."""
ORDER = (
    ("stop agent n0", AWAY_S),
    ("start agent n0", 0),
    ("kill -9 guard n1", 0),
    ("kill -9 agent n1", AWAY_S),
    ("kill -9 coordinator", 1),
    ("restart coordinator", 0),
    ("start agent n1", 0),
    ("kill -9 both of n1", AWAY_S),
    ("start agent n1", 0),
    ("leave n2", 0),
    ("cancel all", 0),
    ("submit", 0),
    ("submit", 0),
    ("submit", AWAY_S),
    ("forget n2 --outside-budget", 1),
    ("resume n2", 2),
    ("power of n0 off, forget", 2),
    ("start agent n0", 1),
    ("resume n0", 1),
    ("budget 85 W", 1),
)


@pytest.mark.system
def test_the_true_limits_stay_within_the_budget(tmp_path: Path) -> None:
    if why := why_no_fuse():
        pytest.skip(why)
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    result = tried(1, tmp_path / "site", lambda order: order.follow(ORDER), sets_calendars=False)
    assert result.held, "\n".join((line(result), *result.did))
    assert result.verdict.ratio_max > 0.9, "the budget was not tight"
