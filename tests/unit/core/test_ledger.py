"""The arithmetic of committed power."""

from __future__ import annotations

import pytest

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.power.ledger import LedgerError, PowerLedger

N0, N1 = NodeId("n0"), NodeId("n1")
A, B = ZoneName("a"), ZoneName("b")


def ledger(budget: int = 100, caps: int = 20) -> PowerLedger:
    out = PowerLedger(budget_uw=budget)
    out.open(N0, 10, {A: caps})
    return out


def test_a_node_costs_its_base_power_and_its_caps() -> None:
    power = PowerLedger(budget_uw=100)
    power.open(N0, 10, {A: 20, B: 5})
    assert (power.committed_uw, power.room_uw, power.peak_uw) == (35, 65, 35)


def test_a_node_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(LedgerError, match="needs 101 uW, but 100 uW are free"):
        PowerLedger(budget_uw=100).open(N0, 1, {A: 100})


def test_a_closed_node_costs_nothing() -> None:
    power = ledger()
    power.close(N0)
    power.close(N1)
    assert power.committed_uw == 0


def test_a_raise_is_charged_when_it_is_sent_and_a_lowering_when_its_window_has_passed() -> None:
    power = ledger()
    power.send(N0, {A: 50})
    assert power.committed_uw == 60
    power.confirm(N0, A, 50, settled_ns=0, now_ns=0)
    power.send(N0, {A: 30})
    assert power.committed_uw == 60
    power.confirm(N0, A, 30, settled_ns=7, now_ns=2)
    assert power.committed_uw == 60
    assert power.next_settling_ns(2) == 7
    assert not power.settle(6)
    assert power.settle(7)
    assert power.committed_uw == 40
    assert power.next_settling_ns(7) is None


def test_a_raise_that_does_not_fit_is_an_error_and_one_that_just_fits_is_not() -> None:
    power = ledger()
    assert power.may_raise(N0, {A: 90})
    assert not power.may_raise(N0, {A: 91})
    with pytest.raises(LedgerError, match="raising n0 by 71 uW exceeds the free 70 uW"):
        power.send(N0, {A: 91})
    power.send(N0, {A: 90})
    assert power.room_uw == 0


def test_a_raise_below_what_is_still_settling_costs_nothing() -> None:
    power = ledger(caps=90)
    power.confirm(N0, A, 20, settled_ns=9, now_ns=0)
    assert power.may_raise(N0, {A: 90})
    assert not power.may_raise(N0, {A: 91})


def test_a_lost_raise_counts_until_a_reading_that_is_late_enough() -> None:
    power = ledger()
    power.send(N0, {A: 50})
    power.lose(N0, until_ns=10)
    power.lose(N1, until_ns=10)
    power.confirm(N0, A, 20, settled_ns=3, now_ns=3)
    power.settle(5)
    assert power.committed_uw == 60
    assert power.next_settling_ns(5) == 10
    power.confirm(N0, A, 20, settled_ns=13, now_ns=10)
    assert power.committed_uw == 60
    power.settle(13)
    assert power.committed_uw == 30


def test_a_lost_lowering_leaves_the_old_cap_charged() -> None:
    power = ledger(caps=50)
    power.send(N0, {A: 20})
    power.lose(N0, until_ns=10)
    assert power.committed_uw == 60
    assert power.accounts[N0].zones[A].too_high(20, now_ns=0)


def test_two_lost_raises_count_as_the_higher() -> None:
    power = ledger()
    for cap in (50, 40):
        power.send(N0, {A: cap})
        power.lose(N0, until_ns=10)
    assert power.committed_uw == 60


def test_a_floor_counts_a_window_after_the_lease_has_ended() -> None:
    power = ledger(caps=50)
    power.fall_to_floor(N0, {A: 10, B: 10}, {A: 5, B: 5})
    power.fall_to_floor(N1, {A: 10}, {A: 5})
    assert power.committed_uw == 60
    power.settle(5)
    assert power.committed_uw == 20


def test_a_reading_above_the_budget_is_a_breach_until_it_is_made_up_for() -> None:
    power = ledger(budget=50, caps=40)
    power.confirm(N0, A, 45, settled_ns=0, now_ns=0)
    assert (power.breaches, power.in_breach, power.peak_uw) == (1, True, 55)
    power.send(N0, {A: 40})  # Lowering is always possible.
    power.confirm(N0, A, 40, settled_ns=1, now_ns=0)
    power.settle(1)
    assert (power.breaches, power.in_breach) == (1, False)


def test_a_zone_nobody_knows_changes_nothing() -> None:
    power = ledger()
    power.confirm(N0, B, 99, settled_ns=0, now_ns=0)
    power.confirm(N1, A, 99, settled_ns=0, now_ns=0)
    assert power.committed_uw == 30


def test_a_reopened_node_keeps_what_its_zones_are_charged_with() -> None:
    power = ledger(caps=50)
    power.confirm(N0, A, 20, settled_ns=9, now_ns=0)
    power.reopen(N0, 5, {A: 20, B: 7})
    assert power.committed_uw == 5 + 50 + 7
    power.reopen(N0, 60, {A: 20, B: 7})
    assert power.in_breach


def test_a_lowered_budget_is_excused_until_it_is_kept() -> None:
    power = ledger()
    power.budget_uw, power.over_deadline_ns = 25, 9
    assert power.room_uw == -5
    power.settle(3)
    assert power.over_deadline_ns == 9
    power.send(N0, {A: 10})
    power.confirm(N0, A, 10, settled_ns=4, now_ns=3)
    power.settle(4)
    assert power.over_deadline_ns == 0
