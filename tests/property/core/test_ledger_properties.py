"""The ledger's charge bounds what a zone may draw, whatever becomes of the caps sent to it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.ledger import PowerLedger


class AnyLedger(RuleBasedStateMachine):
    """One zone that obeys, late or not at all: it never holds more than it is charged with."""

    ZONE, NODE = ZoneName("z"), NodeId("n")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = PowerLedger(budget_uw=100)
        self.ledger.open(self.NODE, 10, {self.ZONE: 20})
        self.now = 0
        self.cap = 20
        self.lately: list[tuple[int, int]] = []
        self.flying: list[int] = []
        self.lost: list[tuple[int, int]] = []

    def hold(self, cap: int) -> None:
        if cap < self.cap:
            self.lately.append((self.now + 5, self.cap))
        self.cap = cap

    @precondition(lambda self: not self.flying)
    @rule(cap=st.integers(5, 90))
    def send(self, cap: int) -> None:
        if self.ledger.may_raise(self.NODE, {self.ZONE: cap}):
            before = self.ledger.committed_uw
            self.ledger.send(self.NODE, {self.ZONE: cap})
            assert self.ledger.committed_uw >= before, "sending frees nothing"
            self.flying.append(cap)

    @precondition(lambda self: self.flying)
    @rule()
    def answered(self) -> None:
        self.hold(self.flying.pop())
        self.ledger.confirm(self.NODE, self.ZONE, self.cap, self.now + 5, self.now)

    @precondition(lambda self: self.flying)
    @rule()
    def give_up(self) -> None:
        self.lost.append((self.now + 3, self.flying.pop()))
        self.ledger.lose(self.NODE, self.now + 9)

    @precondition(lambda self: self.lost)
    @rule()
    def arrives_late(self) -> None:
        until, cap = self.lost.pop()
        if self.now <= until:
            self.hold(cap)

    @precondition(lambda self: not self.flying)
    @rule()
    def read(self) -> None:
        self.ledger.confirm(self.NODE, self.ZONE, self.cap, self.now + 5, self.now)

    @rule(span=st.integers(1, 12))
    def wait(self, span: int) -> None:
        self.now += span
        self.ledger.settle(self.now)

    @invariant()
    def the_charge_bounds_the_truth(self) -> None:
        drawn = max([self.cap, *(cap for until, cap in self.lately if until > self.now)])
        assert drawn + 10 <= self.ledger.committed_uw <= 100


AnyLedger.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestAnyLedger = AnyLedger.TestCase
