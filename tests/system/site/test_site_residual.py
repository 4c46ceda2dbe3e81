"""Work on cores that a job has lost, from its threads to the output of commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from system.site.live_site import CPUS, LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

# Works on every core of the node and ignores its mask.
STRAY = """
import os, sys, threading, time
def stray(cpu):
    while True:
        os.sched_setaffinity(0, {cpu})
        end = time.monotonic() + 0.05
        while time.monotonic() < end: pass
for cpu in map(int, sys.argv[1:]): threading.Thread(target=stray, args=(cpu,)).start()
"""


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    agent = 'masks = "affinity"\nresidual_window_s = 1.0'
    return start_site(agent=agent, throttle="signals", nodes=1, cpu_share=0.8)


def test_residual_work_is_shown_where_it_is_and_of_whom(site: LiveSite) -> None:
    stray = site.submit(
        [sys.executable, "-c", STRAY, *map(str, CPUS)],
        kind=pb.JOB_KIND_MALLEABLE,
        size_max=2,
        time_ns=600 * 10**9,
    )
    site.running(stray)
    wait_until("both cores", lambda: site.job(stray).size == 2)
    assert not site.job(stray).residual
    other = site.submit(["sleep", "100"], time_ns=600 * 10**9)
    site.running(other)
    job = wait_until("an alarm", lambda: _if_alarm(site.job(stray)))
    lost = int(site.job(other).shares[0].cpus)
    assert [core.cpu for core in job.residual] == [lost]
    assert job.residual[0].node_id == "n0"
    assert job.residual_cpu_ns >= job.residual[0].cpu_ns > 0
    assert job.core_ns > 0
    node = site.client.list_nodes().nodes[0]
    assert [(core.job_id, core.cpu) for core in node.residual] == [(stray, lost)]
    assert node.sockets >= 1
    assert node.power_source == "zones"
    assert site.shown(stray)["residual"][0]["cpu"] == lost
    assert "above the threshold" in " ".join(site.wattfold("show", stray).stdout.split())
    assert f"{stray} has residual work on CPUs {lost}" in site.wattfold("nodes").stdout
    log = (site.logs / "coordinator.log").read_text()
    assert f"event=residual_alarm node=n0 job={stray}" in log
    site.client.cancel(stray)
    ended = site.ended(stray)
    # Its CPU time is in the journal now.
    assert ended.residual_cpu_ns >= job.residual_cpu_ns
    assert ended.core_ns >= job.core_ns
    assert ended.idle_energy_uj > 0


def _if_alarm(job: pb.Job) -> pb.Job | None:
    return job if job.residual_alarm else None
