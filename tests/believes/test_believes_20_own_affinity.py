"""A program that sets its own affinity while its agent is away does not get the cores of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.conftest import start_site
from system.site.gate import Gate
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["start_site"]

WIDENS = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    os.sched_setaffinity(0, range(os.cpu_count()))
    time.sleep(0.01)
"""


@pytest.fixture
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=1, budget_w=200, agent='masks = "affinity"')


def test_masks_stay_apart_after_a_restart_of_the_agent(site: LiveSite, tmp_path: Path) -> None:
    gate, end = Gate(tmp_path), tmp_path / "end"
    wide = site.submit(["python3", "-c", WIDENS, str(end)])
    plain = site.submit(gate.line("plain"))
    held = {job: site.running(job).shares[0].cpus for job in (wide, plain)}
    pid = site.pid(wide)
    site.kill_agent(0)
    wait_until("all cores", lambda: len(os.sched_getaffinity(pid)) > 1)
    site.start_agent(0)
    wait_until("contact", lambda: site.node(0).state == pb.NODE_STATE_UP)
    assert {job: site.running(job).shares[0].cpus for job in held} == held
    # Its own affinity is taken back as before the restart.
    end.touch()
    gate.open("plain")
    for job in held:
        assert site.ended(job).state == pb.JOB_STATE_COMPLETED
    assert "event_set_aside" not in (site.logs / "coordinator.log").read_text()
