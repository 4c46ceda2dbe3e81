"""Nodes leave a real site: their original limits return only if the budget allows it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from system.site.gate import Gate
from system.site.live_site import BASE_W, DRAM_W, PACKAGE_W, LiveSite, uw, wait_until

from wattfold.v1 import coordinator_pb2 as pb

ORIGINAL_W = BASE_W + PACKAGE_W + DRAM_W
"""Maximum power of an emulated node at its original limits."""


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=75.0)


def left(site: LiveSite, index: int) -> bool:
    return site.node(index).duty == pb.NODE_DUTY_LEFT


def limits_w(site: LiveSite, index: int) -> float:
    return sum(site.limits_uw(index).values()) / 1e6


def test_a_node_leaves_when_its_job_has_ended_and_there_is_room(site: LiveSite) -> None:
    site.wattfold("budget", "set", "75W")
    gate = Gate(site.work)
    job = site.submit(gate.line("a"), size_min=2)
    index = int(site.running(job).shares[0].node_id.removeprefix("n"))
    refused = site.wattfold("node", "leave", f"n{index}", "--no-wait", check=1)
    assert f"jobs on the node must end first: {job}" in refused.stderr
    late = site.wattfold("node", "leave", f"n{index}", "--timeout", "300ms", check=1)
    assert "the order stays in force" in late.stderr
    gate.open("a")
    site.ended(job)
    late = site.wattfold("node", "leave", f"n{index}", "--timeout", "5s", check=1)
    assert "restoring its original limits needs 36.0 W more" in late.stderr
    assert limits_w(site, index) < PACKAGE_W
    site.wattfold("budget", "set", "90W")
    site.wattfold("node", "leave", f"n{index}", "--timeout", "20s")
    assert limits_w(site, index) == PACKAGE_W + DRAM_W
    assert site.node(index).committed_uw == uw(ORIGINAL_W)
    site.wattfold("node", "resume", f"n{index}")
    wait_until("its floors", lambda: limits_w(site, index) < PACKAGE_W)


def test_what_has_left_stays_out_over_restarts_and_is_charged_until_it_is_forgotten(
    site: LiveSite,
) -> None:
    site.wattfold("budget", "set", "90W")
    site.wattfold("node", "leave", "n1", "--timeout", "20s")
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("n1 heard of", lambda: site.node(1).state == pb.NODE_STATE_UP)
    assert left(site, 1)
    site.agent(1).send_signal(signal.SIGTERM)
    assert site.agent(1).wait(240) == 0
    site.start_agent(1)
    wait_until("n1 heard of again", lambda: site.node(1).state == pb.NODE_STATE_UP)
    assert left(site, 1)
    assert limits_w(site, 1) == PACKAGE_W + DRAM_W
    assert site.node(1).committed_uw == uw(ORIGINAL_W)
    site.wattfold("node", "forget", "n1", "--outside-budget", "--reason", "other cluster")
    power = site.client.power()
    assert power.outside_uw == power.outside_accepted_uw == uw(ORIGINAL_W)
    assert not power.over_uw
    assert limits_w(site, 1) == PACKAGE_W + DRAM_W, "nobody touches it"
    site.wattfold("node", "resume", "n1")
    wait_until("n1 in the sum", lambda: site.node(1).committed_uw <= uw(24.0))
    assert not site.client.power().outside_uw
