"""Actions of a starting coordinator before it has replayed its journal, and their order."""

# ruff: noqa: N802 - gRPC names the methods

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.core.stage import Stage, node_spec, on, reading

from wattfold.contract.ids import Epoch, NodeId
from wattfold.coordinator.adapters.agents.calls import AgentSettings, Hooks
from wattfold.coordinator.adapters.agents.lease_holder import AT_ONCE, LeaseHolder
from wattfold.coordinator.adapters.agents.link import AgentLink, Contacts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.running_leases import CUT_NS, RunningLeases
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

S, W = 1_000_000_000, 1_000_000
LEASE_NS = 10 * S
N0, N1 = NodeId("n0"), NodeId("n1")
LONG_AGO_NS = S
KILLED_NS = 1000 * S


class Past:
    """A journal of two nodes with leases that ends when the coordinator was killed."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder / "j")
        self.now_ns = LONG_AGO_NS
        self.core = Stage(1000, start=False).core
        self.add(
            ev.CoordinatorStarted(epoch=Epoch(7), lease_ns=LEASE_NS, command_timeout_ns=2 * S),
            ev.BudgetChanged(budget_uw=1000 * W),
        )
        for node_id in (N0, N1):
            self.add(
                ev.NodeRegistered(node_id=node_id, address=f"unix:/{node_id}"),
                reports.NodeConnected(spec=node_spec(node_id), caps=(reading(10),), processes=()),
            )

    def add(self, *events: ev.Event) -> None:
        for event in events:
            self.journal.append(event, self.now_ns)
            self.core.handle(event, self.now_ns)
        self.journal.commit()

    def renewed(self, *node_ids: NodeId) -> None:
        for node_id in node_ids:
            event = reports.LeaseRenewed(node_id=node_id, request_id="", caps=(reading(10),))
            self.add(event)

    def at(self, time_ns: int) -> Past:
        self.now_ns = time_ns
        return self

    def checkpoint(self) -> None:
        self.journal.checkpoint(self.core.state, self.now_ns)

    def leases(self, after_s: float) -> RunningLeases | None:
        """Return the leases found by a coordinator that starts ``after_s`` after the end of the
        journal.
        """
        self.journal.close()
        self.journal = Journal(self.journal.path)
        return self.journal.running_leases(self.now_ns + round(after_s * S))

    def found(self, after_s: float = 4.0) -> list[str]:
        """Nodes whose leases it renews."""
        leases = self.leases(after_s)
        return sorted(leases.addresses) if leases else []


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    made = Past(tmp_path)
    made.at(KILLED_NS - 3 * S).renewed(N0, N1)
    made.at(KILLED_NS)
    yield made
    made.journal.close()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_leases_that_run_are_found_without_a_replay(past: Past, checkpoint: bool) -> None:
    if checkpoint:
        past.checkpoint()
    assert past.leases(after_s=4) == RunningLeases(
        epoch=Epoch(7),
        lease_ns=LEASE_NS,
        command_timeout_ns=2 * S,
        addresses={N0: "unix:/n0", N1: "unix:/n1"},
    )


def test_an_old_journal_has_no_leases_that_run(past: Past) -> None:
    past.add(ev.TimePassed())
    assert past.found(after_s=19) == ["n0", "n1"]
    assert past.found(after_s=21) == []


def test_a_start_deleted_from_the_events_is_known_by_the_checkpoint(past: Past) -> None:
    past.journal.close()
    past.journal = Journal(past.journal.path, kept_events=1)
    past.add(ev.TimePassed())
    past.checkpoint()
    past.at(KILLED_NS + S).renewed(N0)
    assert next(past.journal.events(after=0)).event == ev.TimePassed()
    assert past.found() == ["n0"]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_cut_before_the_end_leaves_the_leases_to_the_replay(past: Past, checkpoint: bool) -> None:
    past.add(ev.BudgetChanged(budget_uw=40 * W, deadline_ns=10 * S))
    if checkpoint:
        past.checkpoint()
    assert past.found() == []
    past.at(KILLED_NS + CUT_NS + 2 * LEASE_NS).renewed(N0, N1)
    assert past.found() == ["n0", "n1"]


def test_a_raise_does_not(past: Past) -> None:
    past.add(ev.BudgetChanged(budget_uw=1001 * W))
    assert past.found() == ["n0", "n1"]
    past.add(ev.BudgetChanged(budget_uw=1000 * W))
    assert past.found() == []


def test_a_raise_counts_as_a_cut_where_the_budget_before_it_is_not_known(past: Past) -> None:
    past.at(KILLED_NS - 500 * S).add(
        ev.BudgetAnnounced(at_ns=KILLED_NS - 400 * S, budget_uw=2000 * W)
    )
    past.at(KILLED_NS).renewed(N0)
    assert past.found() == ["n0", "n1"]
    past.add(ev.BudgetChanged(budget_uw=1001 * W))
    assert past.found() == []


def test_a_cut_with_a_long_deadline_does_too(past: Past) -> None:
    past.add(ev.BudgetChanged(budget_uw=40 * W, deadline_ns=500 * S))
    past.at(KILLED_NS + 490 * S).renewed(N0)
    assert past.found() == []


@pytest.mark.parametrize(("many", "stored"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("ahead_s", "holds"), [(30, False), (-5, False), (500, True)])
def test_a_near_budget_too(past: Past, many: int, stored: int, ahead_s: int, holds: bool) -> None:
    one = ev.BudgetAnnounced(at_ns=KILLED_NS + ahead_s * S, budget_uw=40 * W)
    event = ev.BudgetsScheduled(schedule="day", budgets=(one,)) if many else one
    past.at(KILLED_NS - 6 * S).add(event)
    if stored:
        past.checkpoint()
    past.at(KILLED_NS).renewed(N0)
    assert (past.found(after_s=0) == ["n0", "n1"]) is holds


@pytest.mark.parametrize("announced", [False, True])
def test_a_step_of_the_calendar_moves_announced_budgets(past: Past, announced: bool) -> None:
    """Without a replay, their times are unknown."""
    if announced:
        past.add(ev.BudgetAnnounced(at_ns=KILLED_NS + 10_000 * S, budget_uw=50 * W))
    past.add(ev.CalendarStepped(by_ns=9_990 * S))
    assert past.found() == ([] if announced else ["n0", "n1"])


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(
    "event",
    [
        ev.NodeOrdered(node_id=N0, order=NodeOrder.LEAVE, reason=""),
        ev.NodeRetired(node_id=N0),
        reports.NodeSilent(node_id=N0, reason="test"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_node_with_an_order_or_without_contact_is_left_out(
    past: Past, event: ev.Event, checkpoint: bool
) -> None:
    past.add(event)
    if checkpoint:
        past.checkpoint()
    assert past.found() == ["n1"]


def test_no_lease_from_before_a_restore_is_renewed(past: Past) -> None:
    past.add(ev.JournalRestored(epoch=Epoch(107), submissions=0))
    assert past.found() == []


def test_leases_from_before_a_start_count_until_a_node_may_be_given_up(past: Past) -> None:
    start = ev.CoordinatorStarted(epoch=Epoch(8), lease_ns=LEASE_NS, command_timeout_ns=2 * S)
    past.at(KILLED_NS).add(start)
    past.at(KILLED_NS + S).renewed(N1)
    assert past.found() == ["n0", "n1"]
    past.at(KILLED_NS + 11 * S).renewed(N1)
    assert past.found() == ["n1"]


class Leasing(node_agent_pb2_grpc.NodeAgentServicer):
    """Agents behind one server. They renew leases unless the epoch is older than their own."""

    def __init__(self) -> None:
        self.epoch = 0
        self.renewals: list[Any] = []
        self.at_once = self.most_at_once = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.over = threading.Event()
        self._lock = threading.Lock()

    def RenewLease(self, request: Any, context: Any) -> pb.RenewLeaseResponse:
        if request.header.epoch < self.epoch:
            context.abort(grpc.StatusCode.ABORTED, "an older epoch")
        with self._lock:
            self.renewals.append(request)
        return pb.RenewLeaseResponse(remaining_ns=request.duration_ns)

    def GetInventory(self, request: Any, context: Any) -> pb.Inventory:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.go_on.wait(240)
        with self._lock:
            self.at_once -= 1
        return pb.Inventory(node_id="n0", cpus="0-3")

    def ListProcesses(self, request: Any, context: Any) -> pb.ListProcessesResponse:
        return pb.ListProcessesResponse()

    def StreamTelemetry(self, request: Any, context: Any) -> Iterator[pb.Telemetry]:
        while context.is_active() and not self.over.wait(0.05):
            yield pb.Telemetry(node_id="n0", uptime_ns=1)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[tuple[Leasing, str]]:
    servicer = Leasing()
    server = grpc.server(futures.ThreadPoolExecutor(AT_ONCE * 2))
    node_agent_pb2_grpc.add_NodeAgentServicer_to_server(servicer, server)
    address = f"unix:{tmp_path}/agents.sock"
    server.add_insecure_port(address)
    server.start()
    yield servicer, address
    servicer.go_on.set()
    servicer.over.set()
    server.stop(0).wait()


def leases_at(address: str, count: int) -> RunningLeases:
    return RunningLeases(
        epoch=Epoch(7),
        lease_ns=S // 5,
        command_timeout_ns=60 * S,
        addresses={NodeId(f"n{number}"): address for number in range(count)},
    )


def test_leases_are_renewed_again_and_again_under_the_epoch_before(
    agents: tuple[Leasing, str],
) -> None:
    servicer, address = agents

    async def run() -> set[NodeId]:
        holder = LeaseHolder("", "same-journal")
        await holder.begin(leases_at(address, 3))
        while len(servicer.renewals) < 9:
            await asyncio.sleep(0.01)
        await holder.close()
        return holder.held

    assert asyncio.run(run()) == {"n0", "n1", "n2"}
    headers = [request.header for request in servicer.renewals]
    assert {(header.epoch, header.coordinator_id) for header in headers} == {(7, "same-journal")}
    assert len({header.request_id for header in headers}) == len(headers)


@pytest.mark.parametrize("cut", [False, True])
def test_after_the_replay_the_ledger_decides(agents: tuple[Leasing, str], cut: bool) -> None:
    servicer, address = agents
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    if cut:
        stage.send(ev.BudgetChanged(budget_uw=50 * W, deadline_ns=10 * S))
    state = stage.core.state
    for node in state.nodes.values():
        node.address = address

    async def run() -> list[NodeId]:
        holder = LeaseHolder("", "same-journal")
        await holder.begin(None)
        await holder.after_replay(state, stage.now_ns)
        await holder.close()
        return holder.holdable(state, stage.now_ns)

    assert asyncio.run(run()) == ([] if cut else ["n0", "n1"])
    assert len(servicer.renewals) == (0 if cut else 2)


def test_what_the_core_does_not_permit_is_not_renewed(agents: tuple[Leasing, str]) -> None:
    servicer, address = agents

    async def run() -> None:
        holder = LeaseHolder("", "same-journal")
        await holder.begin(leases_at(address, 3))
        holder.restrict(lambda node_id: node_id == "n1")
        before = len(servicer.renewals)
        while len(servicer.renewals) < before + 6:
            await asyncio.sleep(0.01)
        assert list(holder._addresses) == ["n1"]
        holder.restrict(lambda _: False)
        assert holder._running is not None
        await holder._running
        await holder.close()

    asyncio.run(run())


def test_an_agent_of_a_newer_epoch_is_left_alone(agents: tuple[Leasing, str]) -> None:
    servicer, address = agents
    servicer.epoch = 8

    async def run() -> set[NodeId]:
        holder = LeaseHolder("", "same-journal")
        await holder.begin(leases_at(address, 2))
        assert holder._running is not None
        await holder._running
        await holder.close()
        return holder.held

    assert asyncio.run(run()) == set()
    assert servicer.renewals == []


def link_to(address: str, posted: list[ev.Event], contacts: Contacts) -> AgentLink:
    hooks = Hooks(
        post=posted.append,
        sampled=lambda _: None,
        heard=lambda *_: None,
        gone=lambda _: None,
        epoch=lambda: 1,
        coordinator_id="c",
        fenced=lambda _: None,
        launch_data=lambda _: None,
        step_key=lambda _: b"",
    )
    clock, settings = Clock(), AgentSettings(command_timeout_s=120.0)
    lag = OwnLag(clock.now_ns)
    return AgentLink(N0, address, "", hooks, settings, clock, lag, contacts)


def test_so_many_nodes_at_once_are_contacted_and_no_more(agents: tuple[Leasing, str]) -> None:
    servicer, address = agents
    servicer.go_on.clear()
    posted: list[ev.Event] = []

    async def run() -> None:
        contacts = Contacts(at_once=4)
        links = [link_to(address, posted, contacts) for _ in range(12)]
        tasks = [asyncio.create_task(link.run()) for link in links]
        while servicer.at_once < 4:
            await asyncio.sleep(0.01)
        servicer.go_on.set()
        while len([e for e in posted if isinstance(e, reports.NodeConnected)]) < 12:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in links))

    asyncio.run(run())
    assert servicer.most_at_once == 4


def test_nodes_that_do_not_answer_delay_no_first_contact(agents: tuple[Leasing, str]) -> None:
    """One contact at a time, and more unpowered nodes than that."""
    _, address = agents
    posted: list[ev.Event] = []

    async def run() -> None:
        contacts = Contacts(at_once=1)
        off = [link_to(f"{address}.off", posted, contacts) for _ in range(3)]
        tasks = [asyncio.create_task(link.run()) for link in off]
        while len([e for e in posted if isinstance(e, reports.NodeSilent)]) < 3:
            await asyncio.sleep(0.01)
        async with contacts.turn(answered=False):
            # Retries have to wait now; the first contact of another node does not.
            link = link_to(address, posted, contacts)
            tasks.append(asyncio.create_task(link.run()))
            while not any(isinstance(event, reports.NodeConnected) for event in posted):
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in (*off, link)))

    asyncio.run(run())
