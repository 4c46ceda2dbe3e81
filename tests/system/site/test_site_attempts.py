"""Restarted and suspended jobs, with real programs on a real site."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from system.agent.agent_process import alive
from system.site.live_site import LiveSite, wait_pid_gone, wait_until

from wattfold.v1 import coordinator_pb2 as pb

PROGRAM = """
import os, pathlib, signal, sys
folder = pathlib.Path(os.environ["WATTFOLD_SNAPSHOT_DIR"])
snapshot, goal = folder / "state", pathlib.Path(sys.argv[1])
start = int(snapshot.read_text()) if snapshot.exists() else 0
print(f"attempt {os.environ['WATTFOLD_ATTEMPT']} from {start}", flush=True)

def save(number=0, frame=None):
    (folder / "new").write_text(str(start + 100))
    (folder / "new").rename(snapshot)
    if number:
        sys.exit(0)

signal.signal(signal.SIGUSR1, save)
if "often" in sys.argv:
    save()
pathlib.Path(sys.argv[1] + ".ran").open("a").write(f"{os.getpid()}\\n")
while not goal.exists():
    pass
"""


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy")


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    for job in shared.client.list_jobs().jobs:
        shared.client.cancel(job.job_id, force=True)
    wait_until("no jobs left", lambda: not shared.client.list_jobs().jobs)


class Runs:
    """A job of the program above on a whole node."""

    def __init__(self, site: LiveSite, goal: Path, *words: str, **spec: Any) -> None:
        self.site, self.goal = site, goal
        # The shell has no handler: the signal would end it and the job.
        line = '"$0" -c "$1" "$2" $3; code=$?; exit $code'
        argv = ["/bin/sh", "-c", line, sys.executable, PROGRAM, str(goal), " ".join(words)]
        self.job_id = site.submit(argv, size_min=2, **spec)

    def pids(self) -> list[int]:
        """Processes of the program, one for each attempt so far."""
        path = Path(f"{self.goal}.ran")
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def started(self, attempt: int) -> int:
        """Wait for an attempt; return its process."""
        wait_until(f"attempt {attempt}", lambda: len(self.pids()) >= attempt)
        self.site.running(self.job_id)
        return self.pids()[attempt - 1]

    def index(self) -> int:
        return int(self.site.job(self.job_id).shares[0].node_id.removeprefix("n"))

    def finish(self) -> pb.Job:
        self.goal.touch()
        return self.site.ended(self.job_id)

    def output(self) -> list[str]:
        return (self.site.work / f"wattfold-{self.job_id}.out").read_text().splitlines()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_with_keeper(pid: int) -> None:
    """Kill a job with its keeper, as a power failure does: no process can report the end."""
    shell = parent(pid)
    for victim in (parent(shell), shell, pid):
        os.kill(victim, signal.SIGKILL)
    wait_pid_gone(pid)


def silent(site: LiveSite, index: int) -> bool:
    return site.node(index).state != pb.NODE_STATE_UP


def back(site: LiveSite, index: int) -> None:
    site.start_agent(index)
    site.wattfold("node", "resume", f"n{index}")
    wait_until("service", lambda: not silent(site, index))


def test_a_job_of_a_dead_node_goes_on_from_its_snapshot_elsewhere(
    site: LiveSite, tmp_path: Path
) -> None:
    runs = Runs(site, tmp_path / "goal", "often", requeue_max=2)
    pid = runs.started(1)
    index = runs.index()
    site.kill_agent(index)
    kill_with_keeper(pid)
    wait_until("silence", lambda: silent(site, index))
    assert site.job(runs.job_id).state == pb.JOB_STATE_RUNNING, "its lease may still hold"
    site.wattfold("node", "forget", f"n{index}", "--no-power", "--reason", "board is dead")
    runs.started(2)
    assert runs.index() == 1 - index
    assert runs.output() == ["attempt 1 from 0", "attempt 2 from 100"]
    assert "board is dead" in site.wattfold("explain", runs.job_id).stdout
    assert f"{runs.job_id}#2" in site.wattfold("queue").stdout
    # The node's record of the first attempt has no effect.
    back(site, index)
    job = runs.finish()
    assert (job.state, job.attempt) == (pb.JOB_STATE_COMPLETED, 2)
    shown = site.shown(runs.job_id)
    (first,) = shown["attempts"]
    assert (first["number"], first["node_ids"]) == (1, [f"n{index}"])
    assert len(runs.pids()) == 2


def test_what_a_forgotten_node_still_runs_is_ended_and_not_taken_for_the_job(
    site: LiveSite, tmp_path: Path
) -> None:
    runs = Runs(site, tmp_path / "goal", requeue_max=2)
    old = runs.started(1)
    index = runs.index()
    site.kill_agent(index)
    wait_until("silence", lambda: silent(site, index))
    site.wattfold("node", "forget", f"n{index}", "--no-power")
    new = runs.started(2)
    assert alive(old)
    back(site, index)
    wait_pid_gone(old)
    assert alive(new)
    assert runs.index() == 1 - index
    assert runs.finish().state == pb.JOB_STATE_COMPLETED
    assert len(runs.pids()) == 2


def test_a_lost_process_is_replaced_without_an_operator(site: LiveSite, tmp_path: Path) -> None:
    runs = Runs(site, tmp_path / "goal", requeue_max=1)
    pid = runs.started(1)
    index = runs.index()
    site.kill_agent(index)
    kill_with_keeper(pid)
    site.start_agent(index)
    runs.started(2)
    job = runs.finish()
    assert (job.state, job.attempt) == (pb.JOB_STATE_COMPLETED, 2)
    assert "keeper" in job.attempts[0].why


def test_a_requeue_lets_the_job_write_its_snapshot(site: LiveSite, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "snapshot"
    runs = Runs(
        site,
        tmp_path / "goal",
        snapshot_signal=signal.SIGUSR1,
        snapshot_grace_ns=60_000_000_000,
        snapshot_dir=str(folder),
    )
    first = runs.started(1)
    done = site.wattfold("requeue", runs.job_id, "--hold", "--reason", "room for others")
    assert done.stdout == f"{runs.job_id} requeuing, then held\n"
    site.in_state(runs.job_id, pb.JOB_STATE_HELD)
    assert not alive(first)
    site.wattfold("release", runs.job_id)
    runs.started(2)
    assert runs.output() == ["attempt 1 from 0", "attempt 2 from 100"]
    assert (folder / "state").read_text() == "100"
    assert "room for others" in site.wattfold("show", runs.job_id).stdout
    site.wattfold("requeue", runs.job_id, "--signal", "usr1")
    runs.started(3)
    assert runs.output()[2] == "attempt 3 from 200"
    job = runs.finish()
    assert (job.state, job.attempt) == (pb.JOB_STATE_COMPLETED, 3)
    assert job.cpu_ns > job.attempts[0].cpu_ns > 0
    audit = json.loads(site.wattfold("--json", "audit", "--job", runs.job_id).stdout)
    assert [e["action"] for e in audit["entries"]].count("Requeue") == 2


def test_a_job_that_does_not_obey_is_ended_when_its_time_is_over(
    site: LiveSite, tmp_path: Path
) -> None:
    runs = Runs(site, tmp_path / "goal", restartable=True)
    runs.started(1)
    site.wattfold("requeue", runs.job_id, "--signal", "USR2", "--grace", "300ms")
    runs.started(2)
    assert runs.output() == ["attempt 1 from 0", "attempt 2 from 0"]
    assert runs.finish().state == pb.JOB_STATE_COMPLETED


def test_a_job_that_is_not_restartable_is_left_alone(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sleep", "600"])
    site.running(job_id)
    refused = site.wattfold("requeue", job_id, check=1)
    assert "submitted without --requeue" in refused.stderr
    assert site.job(job_id).state == pb.JOB_STATE_RUNNING


@pytest.fixture(scope="module", params=["auto", "signals"])
def slow(request: pytest.FixtureRequest, start_site: Callable[..., LiveSite]) -> LiveSite:
    """A site whose caps slow its jobs, also by signals of the throttle."""
    groups = "" if request.param == "auto" else 'job_groups = "off"\n'
    return start_site(nodes=1, budget_w=40.0, throttle=request.param, agent=groups)


def run_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def still(pid: int) -> bool:
    """Whether a busy process gets no CPU time for longer than its throttle ever stops it."""
    before = run_ns(pid)
    try:
        wait_until("a turn", lambda: run_ns(pid) != before, deadline_s=1.5)
    except AssertionError:
        return True
    return False


def test_a_suspended_job_stands_still_whoever_dies(slow: LiveSite, tmp_path: Path) -> None:
    runs = Runs(slow, tmp_path / "goal", restartable=True)
    pid = runs.started(1)
    slow.wattfold("suspend", runs.job_id)
    assert slow.job(runs.job_id).state == pb.JOB_STATE_SUSPENDED
    wait_until("it to stand still", lambda: still(pid))
    slow.kill_agent(0)
    assert still(pid), "though its keeper continues what a throttle has stopped"
    slow.start_agent(0)
    wait_until("the node is up", lambda: not silent(slow, 0))
    assert still(pid)
    slow.coordinator.kill()
    slow.coordinator.wait()
    slow.restart_coordinator()
    wait_until("the node is up", lambda: not silent(slow, 0))
    assert slow.job(runs.job_id).state == pb.JOB_STATE_SUSPENDED
    assert still(pid)
    assert "its processes are stopped" in slow.wattfold("explain", runs.job_id).stdout
    slow.wattfold("resume", runs.job_id)
    wait_until("it to go on", lambda: not still(pid))
    job = runs.finish()
    assert (job.state, len(runs.pids())) == (pb.JOB_STATE_COMPLETED, 1)
    assert job.suspended_s > 0


def test_a_suspended_job_can_be_cancelled_and_requeued(slow: LiveSite, tmp_path: Path) -> None:
    runs = Runs(slow, tmp_path / "goal", snapshot_signal=signal.SIGUSR1)
    pid = runs.started(1)
    slow.wattfold("suspend", runs.job_id)
    wait_until("it to stand still", lambda: still(pid))
    slow.wattfold("requeue", runs.job_id)
    again = runs.started(2)
    assert runs.output()[1] == "attempt 2 from 100"
    slow.wattfold("suspend", runs.job_id)
    wait_until("it to stand still", lambda: still(again))
    slow.wattfold("cancel", runs.job_id)
    assert slow.ended(runs.job_id).state == pb.JOB_STATE_CANCELLED
    assert not alive(again)
