"""Announced budgets on a real site: used in plans, kept at their time, never forgotten."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from system.site.live_site import BASE_W, IDLE_W, PACKAGE_W, LiveSite, uw, wait_until

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import coordinator_pb2 as pb

S = 10**9
HIGH_W, LOW_W = 110.0, 70.0
"""One node at full power fits the higher budget only."""


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=HIGH_W, policy="constraint")


@pytest.fixture(autouse=True)
def calm(site: LiveSite) -> Iterator[None]:
    """Tests in any order: each leaves no job, no announcement, and the budget of the start."""
    yield
    site.cancel_all()
    for one in site.client.power().announced:
        site.wattfold("budget", "cancel", str(one.number))
    site.wattfold("budget", "set", f"{HIGH_W:g}W")


def announce(site: LiveSite, watts: float, in_s: float) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(time.time() + in_s))
    done = site.wattfold("--json", "budget", "set", f"{watts:g}W", "--at", at)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def whole_node(site: LiveSite, argv: Sequence[str], time_s: int) -> str:
    """A job that must have full power."""
    more = {"unit": pb.SIZE_UNIT_NODES, "cap_uw": uw(PACKAGE_W), "time_ns": time_s * S}
    return site.submit(argv, **more)


def written_w(site: LiveSite) -> float:
    """The limits in the zones themselves, with the base power of both nodes."""
    limits_uw = (cap for index in range(2) for cap in site.limits_uw(index).values())
    return 2 * BASE_W + sum(limits_uw) / 1e6


def test_no_job_starts_that_would_run_into_a_fall_that_cannot_feed_it(site: LiveSite) -> None:
    fall = announce(site, LOW_W, 60)
    rise = announce(site, HIGH_W, 1000)
    assert fall["planned_with"]
    assert fall["from_s"] < fall["at_s"]
    assert rise["from_s"] == rise["at_s"]
    long = whole_node(site, ["sleep", "1000"], 600)
    short = whole_node(site, ["sleep", "0.2"], 2)
    assert site.ended(short).state == pb.JOB_STATE_COMPLETED
    start_s = wait_until("when it starts", lambda: site.job(long).expected_start_at_s)
    assert site.job(long).state == pb.JOB_STATE_PENDING
    assert abs(start_s - rise["at_s"]) < 5, "when it can be fed again"
    assert f"announced {fall['number']}" in site.wattfold("power").stdout
    listed = json.loads(site.wattfold("--json", "budget", "list").stdout)["announced"]
    assert [one["number"] for one in listed] == [fall["number"], rise["number"]]
    site.wattfold("budget", "cancel", str(fall["number"]), str(rise["number"]))
    site.running(long)
    wait_until("full power", lambda: site.client.power().committed_uw > uw(LOW_W))


def test_a_fall_is_kept_when_its_time_comes(site: LiveSite) -> None:
    """The record is checked at the end of the site, without an exception for this fall."""
    fall = announce(site, LOW_W, 16)
    wait_until("it is in force", lambda: site.client.power().budget_uw == uw(LOW_W))
    power = site.client.power()
    assert abs(time.time() - fall["at_s"]) < 3
    assert power.committed_uw <= uw(LOW_W)
    assert not power.pending_budget_uw
    assert written_w(site) <= LOW_W


def test_a_time_that_passes_while_the_coordinator_is_dead_has_come(site: LiveSite) -> None:
    site.running(whole_node(site, ["sleep", "1000"], 600))
    wait_until("full power", lambda: site.client.power().committed_uw > uw(LOW_W))
    fall = announce(site, LOW_W, 13)
    site.coordinator.kill()
    site.coordinator.wait()
    wait_until("its time", lambda: time.time() > fall["at_s"])
    assert written_w(site) <= LOW_W, "leases have ended: nodes are at their floors"
    # The new coordinator does not know the limits of the nodes before they answer.
    site.lowered.append((fall["at_s"] - 30, time.time() + 20))
    site.restart_coordinator()
    assert site.client.power().budget_uw == uw(LOW_W)
    assert not site.client.power().announced
    wait_until("kept", lambda: 2 * uw(IDLE_W) <= site.client.power().committed_uw <= uw(LOW_W))


def test_who_announced_what_is_in_the_trail(site: LiveSite) -> None:
    announce(site, LOW_W, 1000)
    trail = json.loads(site.wattfold("--json", "audit", "--action", "AnnounceBudget").stdout)
    first = trail["entries"][0]
    assert first["outcome"] == "done"
    assert f"budget_w={LOW_W:.1f}" in first["detail"]
    refused = site.client.announce_budget
    with pytest.raises(Exception, match="the minimum power of the nodes in use"):
        refused(uw(10), time.time() + 1000)


def contract(folder: Path, *steps: tuple[float, float]) -> str:
    """A file of pairs: seconds from now, and watts."""
    lines = ["time,budget_w"]
    for in_s, watts in steps:
        at_s = time.localtime(time.time() + in_s)
        lines.append(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z', at_s)},{watts:g}")
    file = folder / "contract.csv"
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def schedulings(site: LiveSite) -> list[dict[str, Any]]:
    """The entries of the trail about schedules, newest first."""
    trail = json.loads(site.wattfold("--json", "audit", "--action", "ScheduleBudgets").stdout)
    found: list[dict[str, Any]] = trail["entries"]
    return found


def test_a_schedule_is_kept_and_outlives_the_coordinator(site: LiveSite, tmp_path: Path) -> None:
    earlier = len(schedulings(site))
    site.running(whole_node(site, ["sleep", "1000"], 600))
    wait_until("full power", lambda: site.client.power().committed_uw > uw(LOW_W))
    other = announce(site, HIGH_W, 3000)
    file = contract(tmp_path, (-60, HIGH_W), (25, LOW_W), (1000, LOW_W), (2000, 90))
    shown = json.loads(site.wattfold("--json", "budget", "schedule", file, "--preview").stdout)
    assert [one["budget_uw"] for one in shown["announced"]] == [uw(LOW_W), uw(90)]
    assert shown["minimum_uw"] == site.client.power().floor_uw
    assert len(site.client.power().announced) == 1, "a preview announces nothing"
    site.wattfold("budget", "schedule", file)
    numbers = [one.number for one in site.client.power().announced]
    fall_s = site.client.power().announced[0].at_s
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    assert [one.number for one in site.client.power().announced] == numbers
    wait_until("it is in force", lambda: site.client.power().budget_uw == uw(LOW_W))
    power = site.client.power()
    assert abs(time.time() - fall_s) < 3
    assert power.committed_uw <= uw(LOW_W)
    assert written_w(site) <= LOW_W
    again = json.loads(site.wattfold("--json", "budget", "schedule", file).stdout)
    assert [len(again[name]) for name in ("announced", "kept", "cancelled")] == [0, 1, 0]
    site.wattfold("budget", "cancel", "--schedule", "contract")
    assert [one.number for one in site.client.power().announced] == [other["number"]]
    trail = schedulings(site)
    assert len(trail) == earlier + 4, "one entry for each request"
    assert all("name=contract" in one["detail"] for one in trail)


def test_an_impossible_budget_refuses_the_whole_schedule(site: LiveSite) -> None:
    now_s = time.time()
    request = pb.ScheduleBudgetsRequest(name="contract")
    request.budgets.add(at_s=now_s + 1000, budget_uw=uw(LOW_W))
    request.budgets.add(at_s=now_s + 2000, budget_uw=uw(10))
    with pytest.raises(CliError, match="1 of 2 budgets are refused"):
        site.client.schedule_budgets(request)
    assert not site.client.power().announced
