"""A network separates two coordinators with one state, and joins them again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from believes.test_believes_01_copied_state import BUDGET_W, Limits, copied
from system.site.conftest import start_site
from system.site.gate import Gate
from system.site.live_site import BASE_W, CPUS, SIGCONT, SIGSTOP, LiveSite, wait_until

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.agents.calls import FencedError
from wattfold.coordinator.adapters.agents.take_over import LastWriter, Told, Unasked
from wattfold.coordinator.adapters.journal import home
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.core.rules.jobs.start_conditions import NOT_PLANNED
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb
from wattfold.v1.node_agent_pb2_grpc import NodeAgentStub

__all__ = ["start_site"]

N0, N1 = NodeId("n0"), NodeId("n1")
KNOWN = LastWriter(epoch=4, instance="me", last_number=100)


@pytest.fixture
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=BUDGET_W)


def snapshot(site: LiveSite) -> Path:
    """The state folder of a snapshot of the running machine, which finds itself at home."""
    copy = site.folder / "copy"
    site.coordinator.send_signal(SIGSTOP)
    shutil.copytree(site.state_dir, copy, ignore=shutil.ignore_patterns("*.sock*"))
    site.coordinator.send_signal(SIGCONT)
    with closing(Journal(copy / "journal.sqlite")) as journal:
        home.settle(journal, home.here(copy))
    return copy


def apart(site: LiveSite, folder: Path) -> tuple[Path, list[Path]]:
    """A configuration in which no node can be reached, and where each would be."""
    text, ways = (site.folder / "coordinator.toml").read_text(), []
    for index in range(len(site.plan.nodes)):
        ways.append(folder / f"w{index}")
        text = text.replace(f"unix:{site.agent_socket(index)}", f"unix:{ways[-1]}")
    config = folder / "coordinator.toml"
    config.write_text(text)
    return config, ways


def test_a_clone_that_no_node_answered_ends_when_the_first_one_does(
    site: LiveSite, tmp_path: Path
) -> None:
    """The one that ruled meanwhile rules on, and no node is ever given what another has."""
    gate = Gate(tmp_path)
    copy = snapshot(site)
    job = site.submit(gate.line("job"))
    site.running(job)
    folder = site.folder / "apart"
    folder.mkdir()
    config, ways = apart(site, folder)
    with Limits(site) as limits:
        wait_until("a raised cap", lambda: max(_packages(site)) > 20e6)
        with closing(Journal(copy / "journal.sqlite")) as journal:
            # A node that has heard nothing since the snapshot would obey it.
            wait_until("news at both nodes", lambda: min(_heard(site)) > journal.last_number)
        with copied(site, copy, config=config) as clone:
            with closing(CoordinatorClient(f"unix:{copy}/c.sock")) as client:
                nodes = client.list_nodes().nodes
                assert all(node.state != pb.NODE_STATE_UP for node in nodes)
            # The node without a job first: the clone would have all of the budget for it.
            order = sorted(range(len(ways)), key=lambda index: _packages(site)[index])
            for index in order:
                ways[index].symlink_to(site.agent_socket(index))
            wait_until("the end of one", lambda: {clone.poll(), site.coordinator.poll()} != {None})
            assert clone.wait(240) == 5
        assert "Start the coordinator whose folder is newer" in (
            (site.logs / "copy.log").read_text()
        )
        assert site.coordinator.poll() is None
        assert site.job(job).state == pb.JOB_STATE_RUNNING
        gate.open("job")
        assert site.ended(job).state == pb.JOB_STATE_COMPLETED
    assert limits.samples > 10
    assert limits.most_w <= BUDGET_W


def test_the_coordinator_that_the_operator_named_is_obeyed_when_the_networks_join(
    site: LiveSite,
) -> None:
    copy = snapshot(site)
    for _ in range(2):
        site.kill_coordinator()
        site.start_coordinator()
    folder = site.folder / "apart"
    folder.mkdir()
    config, ways = apart(site, folder)
    with Limits(site) as limits, copied(site, copy, "--moved", config=config) as named:
        ways[0].symlink_to(site.agent_socket(0))
        assert site.coordinator.wait(240) == 5
        assert named.poll() is None
        with closing(CoordinatorClient(f"unix:{copy}/c.sock")) as client:

            def states() -> list[pb.NodeState]:
                return [node.state for node in client.list_nodes().nodes]

            wait_until("one away", lambda: states() == [pb.NODE_STATE_UP, pb.NODE_STATE_DOWN])
            # The other one may still command it, as far as anybody knows.
            assert client.power().committed_uw >= 2 * BASE_W * 1e6 + 60e6
            ways[1].symlink_to(site.agent_socket(1))
            wait_until("all nodes obey it", lambda: set(states()) == {pb.NODE_STATE_UP})
            wait_until("room", lambda: client.power().committed_uw < 60e6)
    assert limits.samples > 10
    assert limits.most_w <= BUDGET_W


def test_each_commands_a_node_by_the_word_of_an_operator(
    start_site: Callable[..., LiveSite], tmp_path: Path
) -> None:
    """The network stays separated: the named one leaves the other node what it may draw."""
    # A policy that gives all power to the nodes that it has, whatever their jobs gain from it.
    site = start_site(nodes=2, budget_w=BUDGET_W, policy="equipartition")
    gate = Gate(tmp_path)
    jobs = [site.submit(gate.line(name), size_min=len(CPUS)) for name in ("a", "b")]
    for job in jobs:
        site.running(job)
    copy = snapshot(site)
    folder = site.folder / "apart"
    folder.mkdir()
    config, ways = apart(site, folder)
    with Limits(site) as limits:
        site.kill_coordinator()
        site.agent_socket(0).rename(ways[0])
        with (
            copied(site, copy, "--moved", config=config),
            closing(CoordinatorClient(f"unix:{copy}/c.sock")) as client,
        ):
            wait_until("n1 down", lambda: _down(client, 1))
            _await_plan(client, jobs[0])
            site.start_coordinator()
            wait_until("n0 down", lambda: _down(site.client, 0))
            _await_plan(site.client, jobs[1])
            wait_until("a raised cap", lambda: _packages(site)[1] > 40e6)
            assert _down(client, 1), "they were to stay apart"
    assert limits.samples > 10
    assert limits.most_w <= BUDGET_W


def _down(client: CoordinatorClient, index: int) -> bool:
    return client.list_nodes().nodes[index].state == pb.NODE_STATE_DOWN


def _await_plan(client: CoordinatorClient, like: str) -> None:
    """Wait for a plan made from now on, as one more job shows."""
    (running,) = client.list_jobs([like], details=True).jobs
    waits = client.submit(pb.SubmitRequest(spec=running.spec))
    told = ("", NOT_PLANNED)
    wait_until("a plan", lambda: client.list_jobs([waits]).jobs[0].reason not in told)


def _packages(site: LiveSite) -> list[int]:
    return [site.limits_uw(index)["package"] for index in range(len(site.plan.nodes))]


def _heard(site: LiveSite) -> list[int]:
    """The number of the last event that each node has heard of."""
    found = []
    for index in range(len(site.plan.nodes)):
        with grpc.insecure_channel(f"unix:{site.agent_socket(index)}") as channel:
            stub = NodeAgentStub(channel)
            found.append(stub.GetInventory(agent_pb.GetInventoryRequest(), timeout=240))
    return [inventory.journal_number for inventory in found]


def test_nodes_of_the_journal_that_have_not_answered_are_asked_at_their_first_contact() -> None:
    asked: list[NodeId] = []

    def inventory(node_id: NodeId, number: int) -> Callable[[], Awaitable[agent_pb.Inventory]]:
        async def call() -> agent_pb.Inventory:
            asked.append(node_id)
            return agent_pb.Inventory(epoch=4, coordinator_id="me", journal_number=number)

        return call

    async def go() -> None:
        unasked = Unasked(KNOWN, {N0, N1}, [Told(node_id=N0, epoch=4, instance="me")])
        await unasked.ask(N0, inventory(N0, 101))
        await unasked.ask(NodeId("new"), inventory(NodeId("new"), 101))
        for _ in range(2):
            with pytest.raises(FencedError, match="after event 101"):
                await unasked.ask(N1, inventory(N1, 101))
        await unasked.ask(N1, inventory(N1, 99))
        await unasked.ask(N1, inventory(N1, 101))

    asyncio.run(go())
    assert asked == [N1, N1, N1], "once it has answered it is not asked again"
