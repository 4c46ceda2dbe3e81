"""Nodes of a real site sleep and wake by the programs of the site, which may fail, lie or be late.

The programs leave a file with their order, and wait for the file with the result from the test.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.live_site import BASE_W, FLOOR_W, IDLE_W, LiveSite, uw
from waiting import wait_until

from wattfold.v1 import coordinator_pb2 as pb

ASLEEP_W, BOOT_W = 3.0, 40.0
_PROGRAM = """#!/bin/sh
# usage: switch FOLDER off|on SECONDS NODE
echo "$3" > "$1/$2-$4"
# A program whose call was removed belongs to a coordinator that was killed.
while [ -e "$1/$2-$4" ] && [ ! -e "$1/$2-$4.status" ]; do sleep 0.05; done
[ -e "$1/$2-$4.status" ] || exit 1
status=$(cat "$1/$2-$4.status")
rm -f "$1/$2-$4" "$1/$2-$4.status"
echo "the $2 of $4 ends with $status"
exit "$status"
"""


class Switch:
    """The test's side of the programs."""

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
            f"asleep_w = {ASLEEP_W}\nboot_w = {BOOT_W}\nboot_s = 30\n"
        )

    def called(self, what: str, node: str) -> str:
        """Wait for a call; return its time limit."""
        called = self.folder / f"{what}-{node}"
        wait_until(f"{what} of {node} called", lambda: called.exists() and called.read_text())
        return called.read_text().strip()

    def answer(self, what: str, node: str, status: int = 0) -> None:
        made = self.folder / f"{what}-{node}.part"
        made.write_text(str(status))
        made.rename(self.folder / f"{what}-{node}.status")


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Switch:
    return Switch(tmp_path_factory.mktemp("switch"))


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite], switch: Switch) -> LiveSite:
    return start_site(nodes=2, budget_w=75.0, parm=switch.settings())


def in_power_state(site: LiveSite, index: int, state: pb.NodePowerState) -> pb.Node:
    wait_until(
        f"n{index} {pb.NodePowerState.Name(state)}", lambda: site.node(index).power_state == state
    )
    return site.node(index)


def test_a_node_sleeps_wakes_and_runs_a_job_and_a_killed_coordinator_orders_again(
    site: LiveSite, switch: Switch
) -> None:
    told = site.wattfold("node", "sleep", "n1").stdout
    assert told == "n1 falling-asleep\n"
    assert switch.called("off", "n1") == "300"
    site.kill_agent(1)
    wait_until("n1 silent", lambda: site.node(1).state != pb.NODE_STATE_UP)
    assert site.node(1).committed_uw >= uw(BASE_W + FLOOR_W), "until it is seen asleep"
    switch.answer("off", "n1")
    assert in_power_state(site, 1, pb.NODE_POWER_STATE_ASLEEP).committed_uw == uw(ASLEEP_W)
    assert "asleep" in site.wattfold("nodes").stdout

    site.wattfold("budget", "set", "55W")
    told = site.wattfold("node", "wake", "n1").stdout
    assert told == ("n1 to-wake: its boot needs 37.0 W more; 28.0 W of the budget are free\n")
    site.wattfold("budget", "set", "75W")
    assert switch.called("on", "n1") == "30"
    assert in_power_state(site, 1, pb.NODE_POWER_STATE_BOOTING).committed_uw == uw(BOOT_W)
    site.coordinator.kill()
    site.coordinator.wait()
    (switch.folder / "on-n1").unlink()
    site.restart_coordinator()
    switch.called("on", "n1")
    assert site.node(1).committed_uw == uw(BOOT_W)
    site.start_agent(1)
    switch.answer("on", "n1")
    in_power_state(site, 1, pb.NODE_POWER_STATE_AWAKE)
    wait_until("n1 up", lambda: site.node(1).state == pb.NODE_STATE_UP)
    assert site.node(1).committed_uw == uw(IDLE_W)
    jobs = [site.submit(["true"], size_min=len(os.sched_getaffinity(0)) and 2) for _ in range(2)]
    assert [site.ended(job).state for job in jobs] == [pb.JOB_STATE_COMPLETED] * 2


def test_a_program_that_fails_and_a_suspension_that_lies_change_no_charge(
    site: LiveSite, switch: Switch
) -> None:
    site.wattfold("node", "sleep", "n0")
    switch.called("off", "n0")
    switch.answer("off", "n0", status=3)
    wait_until("its failure", lambda: "exit status 3: the off of n0" in site.node(0).message)
    switch.called("off", "n0")
    switch.answer("off", "n0")
    wait_until("its lie", lambda: "its agent answers" in site.node(0).message)
    assert site.node(0).committed_uw == uw(IDLE_W)
    site.wattfold("node", "wake", "n0")
    switch.called("off", "n0")
    site.kill_agent(0)
    wait_until("n0 silent", lambda: site.node(0).state != pb.NODE_STATE_UP)
    switch.answer("off", "n0")
    switch.called("on", "n0")
    site.start_agent(0)
    switch.answer("on", "n0")
    in_power_state(site, 0, pb.NODE_POWER_STATE_AWAKE)


def test_a_node_that_appears_while_it_is_asleep_is_charged_and_in_service(
    site: LiveSite, switch: Switch
) -> None:
    site.wattfold("node", "sleep", "n1")
    switch.called("off", "n1")
    site.kill_agent(1)
    wait_until("n1 silent", lambda: site.node(1).state != pb.NODE_STATE_UP)
    switch.answer("off", "n1")
    in_power_state(site, 1, pb.NODE_POWER_STATE_ASLEEP)
    site.start_agent(1)
    node = in_power_state(site, 1, pb.NODE_POWER_STATE_AWAKE)
    wait_until("n1 up", lambda: site.node(1).state == pb.NODE_STATE_UP)
    assert node.boots == 1


def test_a_coordinator_without_programs_refuses(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1)
    refused = site.wattfold("node", "sleep", "n0", check=1)
    assert "cannot switch nodes; set suspend and resume" in refused.stderr
