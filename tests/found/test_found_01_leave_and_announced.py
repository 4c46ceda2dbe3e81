"""A node leaves only if its original limits fit every announced budget."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc
import pytest
from unit.adapters.api_site import ApiSite, Nobody
from unit.core.stage import PACKAGE, S, Stage, W, caps, leave, node_spec

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.asking import ASKING, Asking
from wattfold.coordinator.adapters.copies.site_messages import node_message
from wattfold.coordinator.adapters.door.peers import own_account
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.requests.budgets import budget_refusal
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node import Duty
from wattfold.v1 import coordinator_pb2 as pb

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def site(budget_w: float = 200) -> Stage:
    """Three nodes: 20 W each at their floors, 60 W with their original limits."""
    stage = Stage(budget_w)
    stage.up("n0", "n1", "n2")
    return stage


def announce(stage: Stage, budget_w: int, in_s: float = 1000) -> int:
    at_ns = stage.now_ns + round(in_s * S)
    stage.send(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_w * W))
    return stage.core.state.announced[-1].number


def waits_for(stage: Stage, node: NodeId) -> str:
    return node_message(stage.core.state, stage.core.state.nodes[node], None, ()).waits_for


def run_until(stage: Stage, at_ns: int) -> list[object]:
    """Let time pass with agents that answer; the core checks the ledger at every instant."""
    done: list[object] = []
    while stage.now_ns < at_ns:
        stage.now_ns = min(stage.now_ns + S // 2, at_ns)
        done += stage.send(ev.TimePassed())
        for node in list(stage.core.state.nodes.values()):
            if node.lease_request:
                zone = stage.core.state.ledger.accounts[node.node_id].zones["package-0"]
                done += stage.leased(node.node_id, zone.confirmed_uw / W)
    return done


def test_a_leave_waits_for_an_announced_budget_and_names_it() -> None:
    stage = site()
    announce(stage, 120)
    number = announce(stage, 90, in_s=2000)
    assert leave("n1") not in stage.order("n1", NodeOrder.LEAVE)
    assert waits_for(stage, N1) == (
        f"announced budget {number} of 90.0 W could not be kept: with the original limits of this "
        "node restored, the nodes need at least 100.0 W. It can leave once a higher budget is in "
        f"force, or after `wattfold budget cancel {number}`"
    )
    assert leave("n1") in stage.send(ev.BudgetCancelled(number=number))


def test_what_fits_the_announced_budget_leaves_at_once() -> None:
    stage = site()
    announce(stage, 100)
    assert leave("n1") in stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    assert leave("n0") not in stage.order("n0", NodeOrder.LEAVE)
    assert "of 100.0 W could not be kept" in waits_for(stage, N0)
    assert "at least 140.0 W" in waits_for(stage, N0)


def test_a_leave_that_waits_takes_no_power_from_jobs() -> None:
    """The caps of other nodes are lowered for a leave, but not for a leave that cannot happen."""
    stage = site(110)
    stage.run_job("a", "n0:0-3", cap_w=50)
    assert stage.committed_w == 100
    announce(stage, 90)
    assert caps("n0", 20) not in stage.order("n1", NodeOrder.LEAVE)
    assert stage.committed_w == 100
    assert caps("n0", 20) in stage.send(ev.BudgetCancelled(number=1)), "30 W are left for n0"


@pytest.mark.parametrize("then_w", [90, 105])
def test_during_and_after_the_fall_the_budget_in_force_decides(then_w: int) -> None:
    stage = site()
    announce(stage, 90, in_s=100)
    announce(stage, then_w, in_s=200)
    stage.order("n1", NodeOrder.LEAVE)
    at_ns = stage.now_ns + 100 * S
    assert leave("n1") not in run_until(stage, at_ns + 99 * S)
    ledger = stage.core.state.ledger
    assert (ledger.budget_uw, ledger.over_deadline_ns) == (90 * W, 0)
    assert bool(leave("n1") in run_until(stage, at_ns + 120 * S)) == (then_w == 105)
    assert ledger.committed_uw <= ledger.budget_uw


def test_one_announced_before_the_command_to_leave_counts() -> None:
    """The command was accepted and a job is still running when the budget is announced."""
    stage = site()
    stage.run_job("a", "n1:0-3", cap_w=20)
    assert leave("n1") not in stage.order("n1", NodeOrder.LEAVE)
    announce(stage, 90)
    assert leave("n1") not in stage.process_ended("n1", "a")
    assert "of 90.0 W could not be kept" in waits_for(stage, N1)


def test_a_node_told_to_leave_goes_through_with_it() -> None:
    """Its original limits are charged, so an announcement counts them; the command is repeated."""
    stage = site()
    stage.order("n1", NodeOrder.LEAVE)
    assert budget_refusal(stage.core.state, 90 * W, accept_outside=False)
    announce(stage, 90)  # As a journal may contain it.
    stage.leave_failed("n1")
    assert leave("n1") in run_until(stage, stage.now_ns + 20 * S)


def test_a_drained_node_and_one_removed_meanwhile() -> None:
    stage = site()
    announce(stage, 90)
    stage.order("n1", NodeOrder.DRAIN)
    assert leave("n1") not in stage.order("n1", NodeOrder.LEAVE)
    stage.silent("n2")
    stage.after(30)
    assert leave("n1") not in stage.after(1)
    out = stage.order("n2", NodeOrder.FORGET_UNPOWERED)
    assert leave("n1") in [*out, *run_until(stage, stage.now_ns + S)], "80 W for two nodes"


def test_resumed_nodes_count_with_their_original_limits_until_a_lease_holds() -> None:
    """n0 left, was resumed and has not taken a lease, so its limits may never be lowered again."""
    stage = site()
    stage.order("n0", NodeOrder.LEAVE)
    stage.left("n0")
    announce(stage, 120)
    stage.order("n0", NodeOrder.RESUME)
    assert leave("n1") not in stage.order("n1", NodeOrder.LEAVE)
    assert "at least 140.0 W" in waits_for(stage, N1)
    assert leave("n1") in stage.leased("n0", 50), "from its lease on n0 goes to its floor"


def test_power_outside_the_ledger_counts() -> None:
    stage = site()
    stage.silent("n2")
    stage.order("n2", NodeOrder.FORGET_UNPOWERED)
    announce(stage, 90)
    stage.connect("n2")
    assert stage.core.state.nodes[N2].duty is Duty.RETURNED
    assert leave("n1") not in stage.order("n1", NodeOrder.LEAVE)
    stage.send(ev.BudgetChanged(budget_uw=200 * W, accepted_outside_uw=20 * W))
    assert leave("n1") in run_until(stage, stage.now_ns + S)


@pytest.mark.parametrize("stored", [False, True])
def test_a_coordinator_that_starts_anew_remembers_both(stored: bool) -> None:
    stage = site()
    announce(stage, 90)
    stage.order("n1", NodeOrder.LEAVE)
    if stored:
        stage.core.state = codec.load_state(codec.dump_state(stage.core.state))
    assert leave("n1") not in stage.start(epoch=2)
    for name in ("n0", "n1", "n2"):
        assert leave("n1") not in stage.connect(name)
        assert leave("n1") not in stage.leased(name)
    assert leave("n1") not in run_until(stage, stage.now_ns + 30 * S)
    assert "announced budget 1" in waits_for(stage, N1)


@pytest.mark.parametrize("budget_w", [150, 95])
def test_a_budget_set_now_does_not_replace_what_is_announced(budget_w: int) -> None:
    stage = site()
    announce(stage, 90)
    stage.order("n1", NodeOrder.LEAVE)
    assert leave("n1") not in stage.budget(budget_w, deadline_s=5)


def test_a_zone_above_its_original_limit_is_charged_with_what_it_draws() -> None:
    """The firmware ignores caps: it draws 50 W under an original limit of 30 W."""
    stage = site()
    stage.core.state.nodes[N1].original_uw[PACKAGE] = 30 * W
    stage.send(reports.CapsNotHeld(node_id=N1, powers_uw=((PACKAGE, 50 * W),)))
    announce(stage, 95)
    assert leave("n1") not in stage.order("n1", NodeOrder.LEAVE)
    assert "at least 100.0 W" in waits_for(stage, N1)


class Context:
    """The part of a call context that a handler needs to refuse a call."""

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        raise ConnectionAbortedError(code, text)


async def admitted(site: ApiSite) -> None:
    """n0 is connected and has a lease."""
    site.service.performers[act.Leave] = Nobody()
    held = (reports.ZoneReading(zone=PACKAGE, cap_uw=10 * W),)
    request = site.service.request
    await request(ev.NodeRegistered(node_id=N0, address="test"))
    await request(reports.NodeConnected(spec=node_spec("n0"), caps=held, processes=()))
    lease = site.core.state.nodes[N0].lease_request
    await request(reports.LeaseRenewed(node_id=N0, request_id=lease, caps=held))


def test_an_announcement_overtaken_by_a_leave_is_not_accepted(tmp_path: Path) -> None:
    """The budget is checked, the node is ordered to leave, and then the event is handled."""

    async def run() -> None:
        async with ApiSite(tmp_path) as site:
            await admitted(site)
            ASKING.set(Asking(peer=own_account(), entry=None))
            request = pb.AnnounceBudgetRequest(budget_uw=40 * W, at_s=time.time() + 3600)
            site.service.post(ev.NodeOrdered(node_id=N0, order=NodeOrder.LEAVE))
            with pytest.raises(ConnectionAbortedError, match="not possible any more") as caught:
                await site.api.AnnounceBudget(request, Context())
            assert caught.value.args[0] is grpc.StatusCode.ABORTED
            assert site.core.state.nodes[N0].duty is Duty.RESTORING
            assert not site.core.state.announced

    asyncio.run(run())


def test_a_leave_that_waits_is_refused_without_waiting_and_shown_with_its_reason(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with ApiSite(tmp_path) as site:
            await admitted(site)
            at_s = time.time() + 3600
            await site.stub.AnnounceBudget(pb.AnnounceBudgetRequest(budget_uw=40 * W, at_s=at_s))
            now = pb.LeaveNodeRequest(node_id="n0", at_once=True)
            with pytest.raises(grpc.aio.AioRpcError, match=r"announced budget 1 of 40\.0 W could"):
                await site.stub.LeaveNode(now)
            assert site.core.state.nodes[N0].duty is Duty.SERVING
            left = await site.stub.LeaveNode(pb.LeaveNodeRequest(node_id="n0"))
            assert "announced budget 1 of 40.0 W could not be kept" in left.node.waits_for
            (node,) = (await site.stub.ListNodes(pb.ListNodesRequest())).nodes
            assert node.waits_for == left.node.waits_for

    asyncio.run(run())


@pytest.mark.parametrize("leased", [False, True])
def test_a_node_removed_after_its_leave_stays_charged_until_it_takes_a_lease(leased: bool) -> None:
    """It is resumed and dies before (or after) its first lease: only a lease ends at floors."""
    stage = site()
    stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    stage.order("n1", NodeOrder.FORGET_OUTSIDE)
    stage.order("n1", NodeOrder.RESUME)
    assert stage.charge_w("n1") == 60
    if leased:
        stage.leased("n1", 50)
    stage.silent("n1")
    stage.after(30)
    stage.after(30)
    assert stage.charge_w("n1") == (20 if leased else 60)
    assert bool(budget_refusal(stage.core.state, 90 * W, accept_outside=False)) is not leased


def test_a_node_that_had_left_before_this_journal_began_likewise() -> None:
    stage = Stage(200)
    stage.up("n0")
    stage.register("n1")
    spec = node_spec("n1")
    held = reports.ZoneReading(zone=PACKAGE, cap_uw=40 * W, original_uw=50 * W)
    stage.send(reports.NodeConnected(spec=spec, caps=(held,), processes=(), left=True))
    assert stage.charge_w("n1") == 60
    stage.silent("n1")
    stage.after(60)
    assert stage.charge_w("n1") == 60
