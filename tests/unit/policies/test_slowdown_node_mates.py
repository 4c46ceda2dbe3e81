"""Mates of a job on cores of one node: the choice among equals."""

from __future__ import annotations

from wattfold.coordinator.policies.slowdown_driven.choice import (
    Guest,
    MateLimits,
    NodeLender,
    NodePick,
    select_on_node,
)

GUEST = Guest(nodes=1, asked=100, cores=2, least=1)
ONE = MateLimits(mates=1)


def lender(job: int, *, waited: int = 0, lends: int = 2) -> NodeLender:
    return NodeLender(job=job, cores=4, waited=waited, asked=1000, ends=5000, lends=lends)


def chosen(lenders: list[NodeLender], free: int = 0, limits: MateLimits = ONE) -> NodePick:
    pick = select_on_node(GUEST, lenders, free, 0, limits)
    assert pick is not None
    return pick


def test_of_equal_mates_the_first_job_lends() -> None:
    assert [job for job, _ in chosen([lender(8), lender(7), lender(9)]).gives] == [7]


def test_who_has_waited_less_lends_first() -> None:
    assert [job for job, _ in chosen([lender(7, waited=10), lender(8)]).gives] == [8]


def test_nobody_lends_where_free_cores_are_enough() -> None:
    assert chosen([lender(7)], free=2).gives == ()


def test_one_that_lends_nothing_is_no_mate() -> None:
    assert select_on_node(GUEST, [lender(7, lends=0)], 0, 0, ONE) is None
