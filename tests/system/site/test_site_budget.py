"""The budget while jobs work at full power: lowered within its deadline, raised and used again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from system.site.live_site import BASE_W, EXAMPLES, IDLE_W, PACKAGE_W, LiveSite, uw, wait_until

from wattfold.v1 import coordinator_pb2 as pb

FULL_W = 2 * (IDLE_W + PACKAGE_W - 9)
LOW_W = 70.0


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=110.0)


@pytest.fixture
def busy(site: LiveSite) -> LiveSite:
    """The site with a job on each node that works at full power."""
    compute = [str(EXAMPLES / "compute"), "10000000"]
    for _ in range(2 - len(site.client.list_jobs().jobs)):
        site.running(site.submit(compute, size_min=2))
    return site


def above_low(site: LiveSite) -> bool:
    return site.client.power().committed_uw > uw(LOW_W)


def written_w(site: LiveSite) -> float:
    """The limits in the zones themselves, with the base power of both nodes."""
    limits_uw = (cap for index in range(2) for cap in site.limits_uw(index).values())
    return 2 * BASE_W + sum(limits_uw) / 1e6


def test_lower_then_higher(busy: LiveSite) -> None:
    wait_until("power above the lower budget", lambda: above_low(busy))
    since_s, deadline_s = time.time(), 5.0
    answer = json.loads(
        busy.wattfold("--json", "budget", "set", f"{LOW_W:g}W", "--deadline", "5s").stdout
    )
    busy.lowered.append((since_s, time.time() + deadline_s))
    assert answer["budget_uw"] == uw(LOW_W)
    wait_until("the lower budget is kept", lambda: not busy.client.power().pending_budget_uw)
    assert busy.client.power().committed_uw <= uw(LOW_W)
    wait_until("the zones hold it", lambda: written_w(busy) <= LOW_W)
    late = [line for line in busy.recorded() if line["time_s"] > since_s + deadline_s]
    assert all(line["committed_w"] <= LOW_W for line in late)
    jobs = busy.client.list_jobs().jobs
    assert {job.state for job in jobs} == {pb.JOB_STATE_RUNNING}
    busy.wattfold("budget", "set", "110W")
    wait_until("the higher budget is used", lambda: above_low(busy))
    wait_until("the zones get it", lambda: written_w(busy) > LOW_W)


def test_measured_power_follows(busy: LiveSite) -> None:
    """The jobs do draw what is committed, not only the idle power."""
    wait_until("power is drawn", lambda: busy.client.power().measured_uw > uw(2 * IDLE_W))


def test_the_budget_is_kept_while_the_coordinator_is_killed(busy: LiveSite) -> None:
    for _ in range(2):
        busy.coordinator.kill()
        busy.coordinator.wait()
        assert written_w(busy) <= 110.0
        busy.restart_coordinator()
        wait_until("both nodes", lambda: busy.client.power().committed_uw > uw(2 * IDLE_W))
    wait_until("the budget is used again", lambda: above_low(busy))
    busy.cancel_all()


def test_a_budget_set_by_hand_outlives_the_coordinator(site: LiveSite) -> None:
    since_s = time.time()
    site.wattfold("budget", "set", "100W", "--deadline", "5s")
    # The caps of the jobs that have just ended may still be falling.
    site.lowered.append((since_s, time.time() + 5.0))
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    assert site.client.power().budget_uw == uw(100)
