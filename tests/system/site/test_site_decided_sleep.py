"""Plans of a real site decide which nodes sleep, and a killed coordinator continues a boot."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.live_site import IDLE_W, LiveSite, uw
from waiting import wait_until

from wattfold.v1 import coordinator_pb2 as pb

ASLEEP_W, BOOT_W = 3.0, 60.0
_PROGRAM = """#!/bin/sh
# usage: switch FOLDER off|on SECONDS NODE. The test starts and stops the agents.
[ "$2" = on ] && echo "$4" >> "$1/boots"
echo "$2" > "$1/$4.part" && mv "$1/$4.part" "$1/$4"
"""


class Machines:
    """The switchable machines: their agents follow the last order when the test lets them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "switch"
        self.program.write_text(_PROGRAM, encoding="utf-8")
        self.program.chmod(0o755)

    def settings(self) -> str:
        account = pwd.getpwuid(os.geteuid()).pw_name
        words = f"{self.program} {self.folder}"
        return (
            f'[power]\nsuspend = "{words} off"\nresume = "{words} on"\naccount = "{account}"\n'
            f"asleep_w = {ASLEEP_W}\nboot_w = {BOOT_W}\nboot_s = 60\nawake_min_s = 0\n"
            "decide = true\n"
        )

    def ordered(self, node: str) -> str:
        order = self.folder / node
        return order.read_text().strip() if order.exists() else ""

    def suspended(self, node: str) -> None:
        """Wait for an order to suspend a node."""
        wait_until(f"{node} suspended", lambda: self.ordered(node) == "off")

    def boots(self) -> list[str]:
        told = self.folder / "boots"
        return told.read_text().split() if told.exists() else []


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def power_state(site: LiveSite, index: int, wanted: pb.NodePowerState) -> pb.Node:
    wait_until(
        f"n{index} {pb.NodePowerState.Name(wanted)}",
        lambda: site.node(index).power_state == wanted,
    )
    return site.node(index)


def test_idle_nodes_sleep_and_a_job_wakes_one_across_a_killed_coordinator(
    start_site: Callable[..., LiveSite], machines: Machines
) -> None:
    site = start_site(nodes=2, budget_w=90.0, policy="fifo-easy", parm=machines.settings())
    for index in range(2):
        machines.suspended(f"n{index}")
        site.kill_agent(index)
    for index in range(2):
        seen = power_state(site, index, pb.NODE_POWER_STATE_ASLEEP)
        assert seen.committed_uw == uw(ASLEEP_W)

    job = site.submit([sys.executable, "-c", "pass"], size_min=1, unit=pb.SIZE_UNIT_NODES)
    wait_until("a boot", lambda: machines.boots() == ["n0"])
    assert power_state(site, 0, pb.NODE_POWER_STATE_BOOTING).committed_uw == uw(BOOT_W)
    assert site.job(job).state == pb.JOB_STATE_STARTING
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("the repeated order", lambda: machines.boots() == ["n0", "n0"])
    assert site.node(0).committed_uw == uw(BOOT_W)
    assert site.job(job).state == pb.JOB_STATE_STARTING
    assert "when these nodes are up: n0 (booting)" in site.job(job).reason
    seen = site.node(0)
    assert seen.power_reason == f"wakes for job {job}"
    assert list(seen.awaited_by_job_ids) == [job]
    assert seen.up_expected_s > 0
    assert "Its nodes are expected to be up in" in site.wattfold("explain", job).stdout
    assert f"wakes for job {job}" in site.wattfold("nodes").stdout
    seen_now = site.wattfold("watch", "--count", "1").stdout
    assert "1 of 2 nodes asleep, 1 boot" in seen_now
    assert f" for job {job}, up " in seen_now
    assert "1 of 2 nodes asleep, 1 boot; plans decide" in site.wattfold("power").stdout
    site.start_agent(0)
    assert site.ended(job).state == pb.JOB_STATE_COMPLETED
    power_state(site, 0, pb.NODE_POWER_STATE_AWAKE)

    site.wattfold("node", "wake", "n1")
    wait_until("the ordered boot", lambda: machines.boots()[-1] == "n1")
    site.start_agent(1)
    power_state(site, 1, pb.NODE_POWER_STATE_AWAKE)
    wait_until("n1 up", lambda: site.node(1).state == pb.NODE_STATE_UP)
    assert site.node(1).committed_uw == uw(IDLE_W)
    assert "stays awake on request of an operator" in site.wattfold("nodes").stdout

    told = site.wattfold("node", "keep-awake", "1").stdout
    assert told == "1 node without jobs stays awake\n"
    told = site.wattfold("node", "keep-awake", "0").stdout
    assert told == "plans decide which nodes stay awake\n"
    assert site.wattfold("node", "auto", "n1").stdout == "n1 awake\n"
    machines.suspended("n0")  # One node stays awake for jobs to come.
