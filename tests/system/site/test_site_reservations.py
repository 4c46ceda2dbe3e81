"""Maintenance windows and preemption on a real site: real programs, real commands."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

QUEUES = '[[queue]]\nname = "low"\n[[queue]]\nname = "high"\npriority = 4\npreempts = ["low"]\n'
PROGRAM = """
import os, pathlib, signal, sys
snapshot = pathlib.Path(os.environ["WATTFOLD_SNAPSHOT_DIR"]) / "state"
start = int(snapshot.read_text()) if snapshot.exists() else 0
def save(number, frame):
    snapshot.write_text(str(start + 1))
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print(f"attempt {os.environ['WATTFOLD_ATTEMPT']} from {start}", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture(scope="module", params=["fifo-easy", "parm-wse"])
def shared(request: pytest.FixtureRequest, start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy=request.param, coordinator=QUEUES)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    for one in shared.client.list_reservations().reservations:
        shared.client.cancel_reservation(one.name)
    shared.cancel_all()


def reserve(site: LiveSite, *arguments: str) -> pb.Reservation:
    site.wattfold("reserve", *arguments)
    (made,) = site.client.list_reservations().reservations
    return made


def said(site: LiveSite, job_id: str, line: str) -> None:
    """Wait for a line of a job's output."""
    path = site.work / f"wattfold-{job_id}.out"
    wait_until(f"{line!r} of {job_id}", lambda: path.exists() and line in path.read_text())


def where(site: LiveSite, job_id: str) -> list[str]:
    return [share.node_id for share in site.running(job_id).shares]


def test_nobody_starts_in_a_maintenance_window_and_all_is_told(site: LiveSite) -> None:
    reserve(site, "k", "--nodes", "n0", "--duration", "1h", "--maintenance", "--reason", "kernel")
    first = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES)
    assert where(site, first) == ["n1"]
    second = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES)
    reason = "node n0 is reserved for maintenance (k) from "
    site.client.cancel(first)
    site.ended(first)
    assert where(site, second) == ["n1"]
    third = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES)
    wait_until("a reason", lambda: reason in site.job(third).reason)
    assert f"Waits: {reason}" in site.wattfold("explain", third).stdout
    assert "kernel" in " ".join(site.wattfold("nodes").stdout.split())
    site.coordinator.kill()
    site.coordinator.wait(240)
    site.restart_coordinator()
    (kept,) = json.loads(site.wattfold("reservations", "--json").stdout)["reservations"]
    assert (kept["name"], kept["node_ids"], kept["begun"]) == ("k", ["n0"], True)
    assert site.job(third).state == pb.JOB_STATE_PENDING
    site.wattfold("reserve", "--cancel", "k")
    assert where(site, third) == ["n0"]


def test_what_runs_makes_way_at_the_start_where_that_is_wanted(site: LiveSite) -> None:
    argv = [sys.executable, "-c", PROGRAM]
    job = site.submit(
        argv, unit=pb.SIZE_UNIT_NODES, restartable=True, snapshot_signal=signal.SIGUSR1
    )
    (node,) = where(site, job)
    said(site, job, "attempt 1 from 0")
    reserve(site, "k", "--nodes", node, "--duration", "1h", "--maintenance", "--end-jobs")
    said(site, job, "attempt 2 from 1")
    assert where(site, job) == [{"n0": "n1", "n1": "n0"}[node]]
    (before,) = site.job(job).attempts
    assert before.why.startswith("yields to maintenance (k) from ")


def test_a_job_of_the_first_queue_has_one_of_the_second_put_back(site: LiveSite) -> None:
    if site.client.power().policy != "fifo-easy":
        pytest.skip("a policy with a queue pre-empts")
    argv = [sys.executable, "-c", PROGRAM]
    options = ("--preemptable", "--snapshot-signal", "USR1", "--queue", "low", "--cwd")
    low = []
    for _ in range(2):
        command = site.wattfold("submit", "--nodes", "1", *options, str(site.work), "--", *argv)
        low.append(command.stdout.strip())
        said(site, low[-1], "attempt 1 from 0")
    old, young = low
    high = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, queue="high")
    site.running(high)
    waits = site.in_state(young, pb.JOB_STATE_PENDING)
    assert waits.attempts[0].why == f"preempted for job {high}"
    assert site.job(old).attempt == 1
    site.client.cancel(high)
    said(site, young, "attempt 2 from 1")
    site.running(young)
