"""A ramp limit on two nodes with a real program: caps rise step by step, and people see why."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from property.core.ramp_oracle import Oracle
from system.site.live_site import BASE_W, DRAM_W, EXAMPLES, PACKAGE_W, LiveSite, wait_until

from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.v1 import coordinator_pb2 as pb

RAMP = """
[budget]
rise_w_per_s = 4
step_w = 8
"""
RISE_UW_PER_S, STEP_UW = 4_000_000, 8_000_000


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", budget_w=1000, cpu_share=0.1, coordinator=RAMP)


def test_a_job_starts_at_once_and_its_power_rises(site: LiveSite) -> None:
    command = [str(EXAMPLES / "compute"), "10000000"]
    job_id = site.submit(command, unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    wait_until("runs", lambda: site.job(job_id).state == pb.JOB_STATE_RUNNING)
    wait_until("a reason", lambda: "waits for the ramp limit" in site.job(job_id).reason)
    assert "waits for the ramp limit" in site.wattfold("explain", job_id).stdout
    sheet = json.loads(site.wattfold("--json", "power").stdout)
    assert int(sheet["ramp"]["rise_uw_per_s"]) == RISE_UW_PER_S
    text = " ".join(site.wattfold("power").stdout.split())
    assert "ramp limit 4.0 W/s up, 8.0 W at once" in text
    wait_until("full power", lambda: written_w(site) >= 2 * (BASE_W + PACKAGE_W + DRAM_W) - 0.2)
    wait_until("no reason", lambda: not site.job(job_id).reason)
    assert not site.client.power().ramp.waiting_uw
    site.cancel_all()


def test_the_limit_holds_at_every_raise_of_the_journal(site: LiveSite) -> None:
    """The replay compares the power after every raise with all earlier amounts."""
    site.coordinator.kill()
    site.coordinator.wait()
    oracle = Oracle(RampLimits(rise_uw_per_s=RISE_UW_PER_S, step_uw=STEP_UW), 0)
    with contextlib.closing(Journal(next(site.folder.rglob("journal.sqlite")))) as journal:
        for entry in journal.events(after=0):
            oracle.see(entry.event, entry.time_ns)
    site.restart_coordinator()
    assert oracle.wrong == []
    assert oracle.raises >= 8


def written_w(site: LiveSite) -> float:
    """The limits in the zones themselves, with the base power of all nodes."""
    caps = (cap for index in range(2) for cap in site.limits_uw(index).values())
    return 2 * BASE_W + sum(caps) / 1e6
