"""Nodes drained, dead, removed, returned and reloaded, on a real site by the real command."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest
from system.site.gate import Gate
from system.site.live_site import FLOORS_W, LiveSite, uw, wait_pid_gone, wait_until

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=110.0)


@pytest.fixture
def gate(site: LiveSite) -> Gate:
    return Gate(site.work)


def whole(site: LiveSite, gate: Gate, name: str) -> str:
    """A job that has all cores of a node and waits at its gate."""
    return site.submit(gate.line(name), size_min=2)


def index_of(job: pb.Job) -> int:
    return int(job.shares[0].node_id.removeprefix("n"))


def duty_is(site: LiveSite, index: int, duty: pb.NodeDuty) -> bool:
    return site.node(index).duty == duty


def test_a_drained_node_ends_its_job_and_gets_no_other(site: LiveSite, gate: Gate) -> None:
    first, second = whole(site, gate, "first"), whole(site, gate, "second")
    index = index_of(site.running(first))
    site.running(second)
    done = site.wattfold("node", "drain", f"n{index}", "--reason", "new memory")
    assert done.stdout == f"n{index} draining\n"
    third = whole(site, gate, "third")
    late = site.wattfold("node", "drain", f"n{index}", "--wait", "--timeout", "300ms", check=1)
    assert f"jobs on the node must end first: {first}" in late.stderr
    gate.open("first")
    site.wattfold("node", "drain", f"n{index}", "--wait", "--reason", "new memory")
    wait_until("a plan without it", lambda: site.job(third).reason not in ("", "not planned yet"))
    assert site.job(third).state == pb.JOB_STATE_PENDING
    shown = site.wattfold("nodes").stdout
    assert "drained" in shown
    assert "new memory" in shown
    site.wattfold("node", "resume", f"n{index}")
    site.running(third)
    gate.open("second")
    gate.open("third")
    site.ended(third)
    site.ended(second)


def test_a_dead_node_is_given_up_forgotten_and_received_with_care(
    site: LiveSite, gate: Gate
) -> None:
    kept = whole(site, gate, "kept")
    index = index_of(site.running(kept))
    node_id, pid = f"n{index}", site.pid(kept)
    refused = site.wattfold("node", "forget", node_id, "--no-power", check=1)
    assert "the node answers, so it has power" in refused.stderr
    site.kill_agent(index)
    wait_until("silence", lambda: site.node(index).state != pb.NODE_STATE_UP)
    assert f"waits for {node_id}" in site.wattfold("cancel", kept).stdout
    assert f"cancel --force {kept}" in site.wattfold("explain", kept).stdout
    site.wattfold("cancel", "--force", kept)
    assert site.job(kept).state == pb.JOB_STATE_CANCELLED
    site.wattfold("node", "forget", node_id, "--no-power", "--reason", "board is dead")
    assert site.node(index).committed_uw == 0
    assert "board is dead" in site.wattfold("nodes").stdout

    site.start_agent(index)
    wait_until("its return", lambda: duty_is(site, index, pb.NODE_DUTY_RETURNED))
    wait_until("its floors", lambda: site.node(index).outside_uw <= uw(FLOORS_W))
    power = json.loads(site.wattfold("--json", "power").stdout)
    assert power["outside_node_ids"] == [node_id]
    assert power["outside_uw"] == uw(FLOORS_W)
    assert "outside" in site.wattfold("power").stdout
    low = site.wattfold("budget", "set", "40W", check=1)
    assert f"nodes outside the ledger ({node_id}) may draw 21.0 W" in low.stderr
    assert "--accept-outside" in low.stderr
    assert site.pid(kept) == pid, "nobody ends what runs there"
    site.wattfold("node", "resume", node_id)
    wait_pid_gone(pid)
    wait_until("service", lambda: site.node(index).state == pb.NODE_STATE_UP)
    last = [whole(site, gate, "a"), whole(site, gate, "b")]
    for job_id, name in zip(last, "ab", strict=True):
        site.running(job_id)
        gate.open(name)
        site.ended(job_id)


def test_nodes_come_and_go_by_reload(site: LiveSite) -> None:
    config = site.folder / "coordinator.toml"
    both = config.read_text()
    start = both.index('[[node]]\nid = "n1"')

    def reload(text: str) -> None:
        config.write_text(text)
        site.coordinator.send_signal(signal.SIGHUP)

    log = site.logs / "coordinator.log"
    reload(both + "nonsense = 1\n")
    wait_until("a refusal", lambda: "reload_refused" in log.read_text())
    assert len(site.client.list_nodes().nodes) == 2
    reload(both[:start].replace("lease_s = 3.0", "lease_s = 4.0"))
    wait_until("n1 gone", lambda: [n.node_id for n in site.client.list_nodes().nodes] == ["n0"])
    assert "reload_needs_restart setting=lease_s" in log.read_text()
    reload(both)
    wait_until("n1 listed", lambda: len(site.client.list_nodes().nodes) == 2)
    wait_until("n1 back", lambda: site.node(1).state == pb.NODE_STATE_UP)
    policy = both.replace("[parm]\n", "[parm]\nlevels = 5\n")
    assert policy != both
    reload(policy)
    wait_until("taken over", lambda: "event=policy_changed" in log.read_text())
    assert "setting=policy" not in log.read_text()
