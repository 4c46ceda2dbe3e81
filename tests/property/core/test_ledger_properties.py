"""The ledger's charge bounds the power of zones, whatever happens to the caps sent to them."""

from __future__ import annotations

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.power.ledger import PowerLedger

ZONES = (ZoneName("package-0"), ZoneName("gpu-a"))
Caps = dict[ZoneName, int]
drawn_caps = st.dictionaries(st.sampled_from(ZONES), st.integers(5, 90), min_size=1)


class AnyLedger(RuleBasedStateMachine):
    """Zones of one node that obey, late or not at all: they never hold more than is charged."""

    NODE = NodeId("n")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = PowerLedger(budget_uw=100)
        self.caps: Caps = dict.fromkeys(ZONES, 20)
        self.ledger.open(self.NODE, 10, dict(self.caps))
        self.now = 0
        self.lately: list[tuple[int, ZoneName, int]] = []
        self.flying: list[Caps] = []
        self.lost: list[tuple[int, Caps]] = []

    def hold(self, caps: Caps) -> None:
        for zone, cap in caps.items():
            if cap < self.caps[zone]:
                self.lately.append((self.now + 5, zone, self.caps[zone]))
            self.caps[zone] = cap

    def told(self) -> None:
        for zone, cap in self.caps.items():
            self.ledger.confirm(self.NODE, zone, cap, self.now + 5, self.now)

    @precondition(lambda self: not self.flying)
    @rule(caps=drawn_caps)
    def send(self, caps: Caps) -> None:
        if self.ledger.may_raise(self.NODE, caps):
            before = self.ledger.committed_uw
            self.ledger.send(self.NODE, caps)
            assert self.ledger.committed_uw >= before, "sending frees nothing"
            self.flying.append(caps)

    @precondition(lambda self: self.flying)
    @rule()
    def answered(self) -> None:
        self.hold(self.flying.pop())
        self.told()

    @precondition(lambda self: self.flying)
    @rule()
    def give_up(self) -> None:
        self.lost.append((self.now + 3, self.flying.pop()))
        self.ledger.lose(self.NODE, self.now + 9)

    @precondition(lambda self: self.lost)
    @rule()
    def arrives_late(self) -> None:
        until, caps = self.lost.pop()
        if self.now <= until:
            self.hold(caps)

    @precondition(lambda self: not self.flying)
    @rule()
    def read(self) -> None:
        self.told()

    @rule(span=st.integers(1, 12))
    def wait(self, span: int) -> None:
        self.now += span
        self.ledger.settle(self.now)

    @invariant()
    def the_charge_bounds_the_truth(self) -> None:
        drawn = 10
        for zone, held in self.caps.items():
            lately = [cap for until, one, cap in self.lately if one == zone and until > self.now]
            drawn += max([held, *lately])
        assert drawn <= self.ledger.committed_uw <= 100


AnyLedger.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=30)
TestAnyLedger = AnyLedger.TestCase
