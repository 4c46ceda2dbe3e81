"""Attempts with an end order that precedes their launch."""

from __future__ import annotations

from wattfold.contract.ids import JobId
from wattfold.nodeagent.core.called_off import KEPT_MAX, KEPT_NS, CalledOff

A, B = JobId("a"), JobId("b")


def test_it_stands_for_the_attempt_and_those_before_and_not_for_others() -> None:
    called_off = CalledOff()
    called_off.add(A, 2, 100)
    found = [called_off.stands(A, attempt, 100) for attempt in (0, 1, 2, 3)]
    assert found == [False, True, True, False]
    assert not called_off.stands(B, 1, 100)
    called_off.add(A, 1, 100)
    assert called_off.stands(A, 2, 100), "an older word takes nothing back"


def test_it_stands_for_a_while() -> None:
    called_off = CalledOff()
    called_off.add(A, 1, 100)
    assert called_off.stands(A, 1, 100 + KEPT_NS - 1)
    assert not called_off.stands(A, 1, 100 + KEPT_NS)


def test_the_oldest_go_where_there_are_too_many() -> None:
    called_off = CalledOff()
    called_off.add(A, 1, 0)
    called_off.add(B, 1, 0)
    called_off.add(A, 1, 1)
    for number in range(KEPT_MAX - 1):
        called_off.add(JobId(str(number)), 1, 1)
    assert called_off.stands(A, 1, 1)
    assert not called_off.stands(B, 1, 1)
