"""Limits on messages of a job: the STATUS text and its rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.token_bucket import TokenBucket
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.status_text import CORES_MAX, PHASE_MAX, SelfReport, parse_status


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("", SelfReport()),
        ("request=6 phase=assembly", SelfReport(phase="assembly", cores=6)),
        ("phase=a.b_c-1", SelfReport(phase="a.b_c-1")),
        ("request=0", SelfReport()),
        ("request=-3 phase=", SelfReport()),
        ("request=999999", SelfReport(cores=CORES_MAX)),
        ("request=1000000", SelfReport()),
        ("phase=" + "x" * 32, SelfReport()),
        ("phase=\x1b[31mred", SelfReport()),
        ("colour=red request=2", SelfReport(cores=2)),
        ("x" * 500 + " request=2", SelfReport()),
    ],
)
def test_status_texts(text, report):
    assert parse_status(text) == report


@given(st.text())
def test_no_text_does_harm(text):
    report = parse_status(text)
    assert 0 <= report.cores <= CORES_MAX
    assert len(report.phase) <= PHASE_MAX
    assert report.phase.isprintable()
    assert report.phase.isascii()


def test_a_budget_is_spent_and_fills_again():
    budget = TokenBucket(rate_per_s=10, burst=3)
    assert [budget.take(1) for _ in range(4)] == [True, True, True, False]
    assert not budget.take(NS_PER_S // 20)
    assert budget.take(NS_PER_S // 10 + 2)
    assert not budget.take(NS_PER_S // 10 + 2)
    # Never more than the burst, however long the pause.
    assert [budget.take(10**6 * NS_PER_S) for _ in range(4)] == [True, True, True, False]


def test_a_debt_is_paid_first():
    budget = TokenBucket(rate_per_s=10, burst=2)
    assert budget.take(1, cost=11)
    assert not budget.take(NS_PER_S // 2)
    assert budget.take(2 * NS_PER_S)


@given(st.lists(st.integers(0, NS_PER_S), max_size=200), st.integers(1, 50), st.integers(1, 20))
def test_no_more_than_rate_and_burst_is_let_through(gaps, rate, burst):
    budget, now_ns, passed = TokenBucket(rate_per_s=rate, burst=burst), 1, 0
    for gap_ns in gaps:
        now_ns += gap_ns
        passed += budget.take(now_ns)
    assert passed <= burst + rate * now_ns / NS_PER_S + 1
