"""Leases are renewed during a restart, and caps that must fall still fall."""

from __future__ import annotations

import random
from functools import partial

import pytest
from simulation.cluster import Cluster, Faults, S, W, node_spec
from simulation.test_cluster import POLICIES, by_turns, finished, job
from unit.core.stage import LEASE_NS, TIMEOUT_NS, Stage, on

from wattfold.contract.ids import Epoch, NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.node import NodeState
from wattfold.coordinator.core.rules.nodes.held_leases import hold_ns, holdable, still_held
from wattfold.coordinator.policies.fifo.policy import FifoEasy

N0, N1 = NodeId("n0"), NodeId("n1")
CUT_NS = 16 * S
"""Leases last 6 s, so a cut is kept by then without a coordinator; renewed leases would last
longer.
"""


def site(budget_w: float = 100) -> Stage:
    """n0 at 60 W with a job, and n1 at its idle 20 W."""
    stage = Stage(budget_w)
    stage.up("n0", "n1")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    return stage


def start_again(stage: Stage, *held: NodeId) -> None:
    event = ev.CoordinatorStarted(
        epoch=Epoch(stage.core.state.epoch + 1),
        lease_ns=LEASE_NS,
        command_timeout_ns=TIMEOUT_NS,
        held=held,
        held_ns=hold_ns(stage.core.state) if held else 0,
    )
    stage.send(event)


def test_leases_are_held_where_the_budget_is_kept() -> None:
    stage = site()
    assert holdable(stage.core.state, stage.now_ns) == [N0, N1]


def test_no_lease_is_held_after_a_cut_that_is_not_kept_yet() -> None:
    stage = site()
    stage.send(ev.BudgetChanged(budget_uw=50 * W, deadline_ns=10 * S))
    assert stage.core.state.ledger.committed_uw > 50 * W
    assert holdable(stage.core.state, stage.now_ns) == []


def test_no_lease_is_held_while_an_announced_budget_is_near() -> None:
    stage = site()
    state = stage.core.state
    stage.send(ev.BudgetAnnounced(at_ns=stage.now_ns + 1000 * S, budget_uw=50 * W))
    assert holdable(state, stage.now_ns) == [N0, N1]
    stage.send(ev.BudgetAnnounced(at_ns=stage.now_ns + 30 * S, budget_uw=90 * W))
    assert holdable(state, stage.now_ns) == []


def test_no_lease_is_held_of_a_journal_that_was_restored() -> None:
    """Nodes may have caps that it does not know of."""
    stage = site()
    stage.send(ev.JournalRestored(epoch=Epoch(100), submissions=0))
    assert holdable(stage.core.state, stage.now_ns) == []
    start_again(stage)
    assert {node.state for node in stage.core.state.nodes.values()} == {NodeState.SILENT}
    assert stage.core.state.ledger.accounts[N0].charge_uw == 60 * W


def test_the_lease_of_a_node_that_leaves_is_not_held() -> None:
    stage = site()
    stage.send(ev.NodeOrdered(node_id=N0, order=NodeOrder.LEAVE, reason="test"))
    assert holdable(stage.core.state, stage.now_ns) == [N1]


def test_a_node_is_charged_for_as_long_as_its_lease_is_held() -> None:
    stage = site()
    state = stage.core.state
    start_again(stage, N0)
    held_until_ns = stage.now_ns + hold_ns(state)
    assert still_held(state, N0)
    until_ns = {name: node.lease_until_ns for name, node in state.nodes.items()}
    assert until_ns[N0] - until_ns[N1] == hold_ns(state)
    assert until_ns[N0] >= held_until_ns + TIMEOUT_NS + LEASE_NS
    stage.after((until_ns[N1] - stage.now_ns) / S + 0.1)
    assert state.nodes[N1].state is NodeState.DOWN
    assert state.ledger.accounts[N0].charge_uw == 60 * W
    stage.after((until_ns[N0] - stage.now_ns) / S + 0.1)
    stage.after(2)
    assert not still_held(state, N0)
    assert state.ledger.accounts[N0].charge_uw == 20 * W


def test_a_cut_ends_the_holding() -> None:
    stage = site()
    start_again(stage, N0)
    stage.send(ev.BudgetChanged(budget_uw=50 * W, deadline_ns=10 * S))
    assert not still_held(stage.core.state, N0)


def cluster_of(seed: int, budget_w: int, contact_s: int, faults: Faults) -> Cluster:
    nodes = [node_spec(f"n{i}") for i in range(4)]
    policy = POLICIES[seed % len(POLICIES)]
    return Cluster(nodes, policy, budget_w * W, seed, faults, contact_ns=contact_s * S)


def test_a_job_runs_at_its_cap_over_a_restart_whenever_its_node_is_contacted() -> None:
    """Contacts take up to 14 s, but leases last 6 s."""
    nodes = [node_spec(f"n{i}") for i in range(4)]
    cluster = Cluster(nodes, FifoEasy(), 300 * W, contact_ns=14 * S)
    for index in range(4):
        cluster.go(str(index), job(400, 4, 4, JobKind.RIGID))
    cluster.run(20 * S)
    caps_uw = {node_id: agent.package_cap_uw for node_id, agent in cluster.agents.items()}
    assert set(caps_uw.values()) == {45 * W}
    cluster.kill_coordinator(2 * S)
    lowest_uw = dict(caps_uw)

    def look() -> bool:
        for node_id, agent in cluster.agents.items():
            lowest_uw[node_id] = min(lowest_uw[node_id], agent.package_cap_uw)
        return False

    cluster.run(60 * S, look)
    assert cluster.epoch == 2
    assert lowest_uw == caps_uw
    assert cluster.holding.renewals > 4


def announce(cluster: Cluster, budget_uw: int, away_ns: int) -> None:
    if not cluster.down:
        cluster.announce_budget(budget_uw, cluster.now_ns + 26 * S + 9 * away_ns)


def cut(cluster: Cluster, budget_uw: int, away_ns: int) -> None:
    del away_ns
    if not cluster.down:
        cluster.set_budget(budget_uw, CUT_NS)


def cut_unsent(cluster: Cluster, budget_uw: int, away_ns: int) -> None:
    """Kill the coordinator after the cut is on disk and before any command is sent."""
    if not cluster.down:
        cluster.kill_coordinator(away_ns)
        cluster.set_budget(budget_uw, CUT_NS)
        event = ev.BudgetChanged(budget_uw=budget_uw, deadline_ns=CUT_NS)
        cluster.journal.append((event, cluster.now_ns))


@pytest.mark.parametrize("killed_again", [False, True])
def test_a_cut_accepted_just_before_the_kill_is_not_undone(killed_again: bool) -> None:
    """No node is contacted in time: the cut is kept because no lease is renewed."""
    nodes = [node_spec(f"n{i}") for i in range(4)]
    cluster = Cluster(nodes, FifoEasy(), 300 * W, seed=1, contact_ns=600 * S)
    for index in range(4):
        cluster.go(str(index), job(400, 4, 4, JobKind.RIGID))
    cluster.run(20 * S)
    assert cluster.truth.sums.bound_uw == 220 * W
    cut_unsent(cluster, 100 * W, 2 * S)
    if killed_again:
        cluster.clock.later(5 * S, partial(cluster.kill_coordinator, S))
    cluster.run(20 * S + CUT_NS)
    assert not any(node.reachable for node in cluster.core.state.nodes.values())
    assert cluster.truth.sums.bound_uw <= 100 * W


@pytest.mark.parametrize("seed", range(8))
def test_restarts_cuts_and_announcements_in_any_order_keep_the_budget(seed: int) -> None:
    """`SimulatedCluster` compares what nodes may draw with the budget at every instant."""
    rng = random.Random(6000 + seed)
    faults = Faults(lose=0.05, late=0.03, double=0.03, delay_ns=200_000_000)
    cluster = cluster_of(seed, rng.randint(110, 170), rng.choice([4, 16]), faults)
    for index in range(24):
        kind = rng.choice(list(JobKind)[1:])
        spec = job(rng.randint(5, 40), 1, 4, kind, by_turns(index))
        cluster.clock.later(rng.randint(0, 90) * S, lambda i=index, s=spec: cluster.go(str(i), s))
    for _ in range(5):
        node, at_ns = NodeId(f"n{rng.randint(0, 3)}"), rng.randint(5, 110) * S
        for_ns = rng.randint(1, 20) * S
        fault = rng.choice([cluster.cut, cluster.kill_agent, cluster.stop_agent])
        cluster.clock.later(at_ns, lambda n=node, f=for_ns, do=fault: do(n, f))
    for at_s in rng.sample(range(20, 110), 4):
        budget_uw, what = rng.randint(85, 170) * W, rng.choice([announce, cut, cut_unsent])
        before_ns, away_ns = rng.randint(0, 3 * S), rng.randint(0, 4 * S)
        cluster.clock.later(at_s * S - before_ns, partial(what, cluster, budget_uw, away_ns))
        cluster.clock.later(at_s * S, partial(cluster.kill_coordinator, away_ns))
    cluster.run(180 * S)
    cluster.run(3000 * S, lambda: finished(cluster))
    assert cluster.epoch > 1
    assert cluster.core.state.ledger.committed_uw <= cluster.budget_uw
