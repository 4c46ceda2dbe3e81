"""In any order of leaves, announcements and schedules, an accepted announced budget is kept.

Agents answer, fall silent and return. The core keeps its own state of nodes and announcements. This
test keeps the caps that are really in force, as agents do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from unit.adapters.test_budgets import SETTLE_NS, FixedClock
from unit.core.stage import PACKAGE, S, Stage, W, node_spec

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.requests import schedules
from wattfold.coordinator.adapters.requests.budgets import announcement_refusal, budget_refusal
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node import Duty
from wattfold.coordinator.core.rules.nodes import node_orders
from wattfold.v1 import coordinator_pb2 as pb

NODES = ("n0", "n1", "n2")
ORIGINAL_W, FLOOR_W, BASE_W = 50, 10, 10
LEASE_S = 9.0


@dataclass
class Agent:
    """The real cap of a node, W, and the end of its lease, s."""

    cap_w: float = FLOOR_W
    lease_until_s: float = 0.0
    left: bool = False
    away: bool = False
    off: bool = False

    @property
    def draws_w(self) -> float:
        return 0.0 if self.off else BASE_W + self.cap_w


@dataclass
class Site:
    stage: Stage
    rng: random.Random
    agents: dict[str, Agent] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    @property
    def now_s(self) -> float:
        return self.stage.now_ns / S

    def answer(self) -> None:
        """Reachable agents execute their orders."""
        for name, agent in self.agents.items():
            node = self.stage.core.state.nodes[NodeId(name)]
            if agent.away or not node.reachable:
                continue
            if node.duty is Duty.RESTORING and node.caps_request:
                agent.left, agent.cap_w, agent.lease_until_s = True, ORIGINAL_W, 0.0
                self.stage.left(name, ORIGINAL_W)
            elif node.caps_request:
                self.take_in(agent)
                account = self.stage.core.state.ledger.accounts.get(NodeId(name))
                pending_uw = account.zones[PACKAGE].pending_uw if account else None
                agent.cap_w = FLOOR_W if pending_uw is None else pending_uw / W
                self.stage.caps_are(name, agent.cap_w)
            if node.lease_request:
                self.take_in(agent)
                agent.lease_until_s = self.now_s + LEASE_S
                self.stage.leased(name, agent.cap_w)

    @staticmethod
    def take_in(agent: Agent) -> None:
        if agent.left:
            agent.left, agent.cap_w = False, FLOOR_W

    def wait(self, seconds: float) -> None:
        until_ns = self.stage.now_ns + round(seconds * S)
        while self.stage.now_ns < until_ns:
            self.stage.now_ns = min(self.stage.now_ns + S // 4, until_ns)
            self.stage.send(ev.TimePassed())
            for agent in self.agents.values():
                if not agent.left and self.now_s >= agent.lease_until_s:
                    agent.cap_w = FLOOR_W
            self.answer()
            self.check()

    def check(self) -> None:
        ledger = self.stage.core.state.ledger
        told = "\n".join(self.said)
        late = ledger.over_deadline_ns and ledger.over_deadline_ns <= self.stage.now_ns
        assert not late, f"{ledger.committed_uw / W} of {ledger.budget_uw / W} W\n{told}"
        if not ledger.over_deadline_ns:
            # A removed node that was resumed counts once it is admitted.
            self.outside -= ledger.accounts.keys()
            counted = [a.draws_w for name, a in self.agents.items() if name not in self.outside]
            assert sum(counted) <= ledger.budget_uw / W, told

    # Possible events.

    def announce(self) -> None:
        budget_w, in_s = self.rng.choice((70, 90, 110, 130, 180)), self.rng.choice((4, 20, 60))
        clock = FixedClock(self.stage)
        at_s = clock.wall_s(self.stage.now_ns) + in_s
        state = self.stage.core.state
        if not announcement_refusal(state, budget_w * W, at_s, clock, SETTLE_NS):
            at_ns = self.stage.now_ns + in_s * S
            self.stage.send(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_w * W))
            self.said.append(f"{self.now_s:.2f} announced {budget_w} W in {in_s} s")

    def schedule(self) -> None:
        clock = FixedClock(self.stage)
        at_s, request = clock.wall_s(self.stage.now_ns), pb.ScheduleBudgetsRequest(name="s")
        for _ in range(self.rng.randrange(5)):
            at_s += self.rng.choice((4, 20, 60))
            budget_w = self.rng.choice((70, 90, 110, 130, 180))
            request.budgets.add(at_s=at_s, budget_uw=budget_w * W)
        proposal = schedules.propose(self.stage.core.state, request, clock, SETTLE_NS)
        if not proposal.reason:
            self.stage.send(proposal.event)
            self.said.append(f"{self.now_s:.2f} scheduled {len(request.budgets)} budgets")

    def cancel(self) -> None:
        for one in self.stage.core.state.announced[:1]:
            self.stage.send(ev.BudgetCancelled(number=one.number))
            self.said.append(f"{self.now_s:.2f} cancelled {one.number}")

    def set_budget(self) -> None:
        budget_w = self.rng.choice((80, 100, 130, 180))
        if not budget_refusal(self.stage.core.state, budget_w * W, accept_outside=False):
            self.stage.budget(budget_w, deadline_s=25)
            self.said.append(f"{self.now_s:.2f} set {budget_w} W")

    def order(self) -> None:
        name = self.rng.choice(NODES)
        node, agent = self.stage.core.state.nodes[NodeId(name)], self.agents[name]
        order = self.rng.choice(list(NodeOrder) + [NodeOrder.LEAVE] * 4)
        state = self.stage.core.state
        if node_orders.refusal(node, order) or node_orders.announced_conflict(state, node, order):
            return
        if order is NodeOrder.FORGET_UNPOWERED:
            agent.away = agent.off = True
        if order is NodeOrder.FORGET_OUTSIDE:
            self.outside.add(name)
        self.stage.order(name, order)
        self.said.append(f"{self.now_s:.2f} {order.value} {name}")

    def away(self) -> None:
        name = self.rng.choice(NODES)
        agent = self.agents[name]
        if agent.off:
            return
        if agent.away:
            agent.away = False
            held = reports.ZoneReading(
                zone=PACKAGE, cap_uw=round(agent.cap_w * W), original_uw=ORIGINAL_W * W
            )
            spec = node_spec(name)
            self.stage.send(
                reports.NodeConnected(spec=spec, caps=(held,), processes=(), left=agent.left)
            )
        else:
            agent.away = True
            self.stage.silent(name)
        self.said.append(f"{self.now_s:.2f} {name} {'away' if agent.away else 'back'}")


@pytest.mark.parametrize("seeds", [range(first, first + 20) for first in range(0, 60, 20)])
def test_an_accepted_announced_budget_is_kept(seeds: range) -> None:
    for seed in seeds:
        stage = Stage(180)
        stage.up(*NODES)
        site = Site(stage, random.Random(seed), {name: Agent() for name in NODES})
        for agent in site.agents.values():
            agent.lease_until_s = LEASE_S
        orders = (site.order, site.order, site.set_budget, site.cancel, site.schedule)
        deeds = (site.announce, site.announce, *orders)
        for _ in range(40):
            site.rng.choice((*deeds, site.order, site.away))()
            site.answer()
            site.wait(site.rng.choice((0.25, 0.25, 1.0, 5.0, 20.0)))
