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
    site = start_site(nodes=2, budget_w=110.0)
    compute = [str(EXAMPLES / "compute"), "10000000"]
    for _ in range(2):
        site.running(site.submit(compute, size_min=2))
    return site


def above_low(site: LiveSite) -> bool:
    return site.client.power().committed_uw > uw(LOW_W)


def written_w(site: LiveSite) -> float:
    """The limits in the zones themselves, with the base power of both nodes."""
    limits_uw = (cap for index in range(2) for cap in site.limits_uw(index).values())
    return 2 * BASE_W + sum(limits_uw) / 1e6


def test_lower_then_higher(site: LiveSite) -> None:
    wait_until("power above the lower budget", lambda: above_low(site))
    since_s, deadline_s = time.time(), 5.0
    answer = json.loads(
        site.wattfold("--json", "budget", "set", f"{LOW_W:g}W", "--deadline", "5s").stdout
    )
    site.lowered.append((since_s, time.time() + deadline_s))
    assert answer["budget_uw"] == uw(LOW_W)
    wait_until("the lower budget is kept", lambda: not site.client.power().pending_budget_uw)
    assert site.client.power().committed_uw <= uw(LOW_W)
    wait_until("the zones hold it", lambda: written_w(site) <= LOW_W)
    late = [line for line in site.recorded() if line["time_s"] > since_s + deadline_s]
    assert all(line["committed_w"] <= LOW_W for line in late)
    jobs = site.client.list_jobs().jobs
    assert {job.state for job in jobs} == {pb.JOB_STATE_RUNNING}
    site.wattfold("budget", "set", "110W")
    wait_until("the higher budget is used", lambda: above_low(site))
    wait_until("the zones get it", lambda: written_w(site) > LOW_W)


def test_measured_power_follows(site: LiveSite) -> None:
    """The jobs do draw what is committed, not only the idle power."""
    wait_until("power is drawn", lambda: site.client.power().measured_uw > uw(2 * IDLE_W))


def test_the_budget_is_kept_while_the_coordinator_is_killed(site: LiveSite) -> None:
    for _ in range(2):
        site.coordinator.kill()
        site.coordinator.wait()
        assert written_w(site) <= 110.0
        site.restart_coordinator()
        wait_until("both nodes", lambda: site.client.power().committed_uw > uw(2 * IDLE_W))
    wait_until("the budget is used again", lambda: above_low(site))
    site.cancel_all()


def test_a_budget_set_by_hand_outlives_the_coordinator(site: LiveSite) -> None:
    since_s = time.time()
    site.wattfold("budget", "set", "100W", "--deadline", "5s")
    # The caps of the jobs that have just ended may still be falling.
    site.lowered.append((since_s, time.time() + 5.0))
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    assert site.client.power().budget_uw == uw(100)
