"""An agent that hangs for longer than its lease and returns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from system.site.gate import Gate
from system.site.live_site import (
    EXAMPLES,
    FLOORS_W,
    IDLE_W,
    SIGCONT,
    SIGSTOP,
    LiveSite,
    uw,
    wait_until,
)

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", lease_s=2.0, coordinator="command_timeout_s = 1")


def test_a_hanging_agent(site: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> None:
    gate = Gate(tmp_path_factory.mktemp("gate"))
    compute = [str(EXAMPLES / "compute"), "10000000"]
    spinning = [site.submit(compute, size_min=2) for _ in range(2)]
    for job_id in spinning:
        site.running(job_id)
    wait_until("full power", lambda: site.node(0).committed_uw == site.node(1).committed_uw)
    held_uw = site.node(0).committed_uw
    assert held_uw > uw(IDLE_W)
    index = [node.node_id for node in site.plan.nodes].index(
        site.job(spinning[0]).shares[0].node_id
    )
    pids = [site.pid(job_id) for job_id in spinning]
    site.agent(index).send_signal(SIGSTOP)
    try:
        wait_until("silent", lambda: site.node(index).state == pb.NODE_STATE_SILENT)
        # Until its lease has certainly ended, it is charged with its earlier power.
        assert site.node(index).committed_uw == held_uw
        site.wattfold("explain", spinning[0])
        assert site.job(spinning[0]).state == pb.JOB_STATE_RUNNING
        wait_until("down", lambda: site.node(index).state == pb.NODE_STATE_DOWN)
        # One averaging window later only the floor counts.
        wait_until("floor", lambda: site.node(index).committed_uw == uw(FLOORS_W))
        # The other node keeps working: its job ends, and another job starts there and nowhere else.
        site.client.cancel(spinning[1])
        site.ended(spinning[1])
        other = site.submit(gate.line("other"))
        assert site.running(other).shares[0].node_id == site.plan.nodes[1 - index].node_id
        gate.open("other")
        assert site.ended(other).state == pb.JOB_STATE_COMPLETED
    finally:
        site.agent(index).send_signal(SIGCONT)
    wait_until("up again", lambda: site.node(index).state == pb.NODE_STATE_UP)
    assert site.pid(spinning[0]) == pids[0]
    assert site.job(spinning[0]).state == pb.JOB_STATE_RUNNING
    wait_until("its caps are back", lambda: site.node(index).committed_uw == held_uw)
    site.cancel_all()
