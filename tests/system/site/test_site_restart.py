"""Jobs that change their size by a restart, with real programs on a real site."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.agent.agent_process import alive
from system.site.live_site import LiveSite, wait_pid_gone, wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

STEPS, PAUSE = 3000, 2000
PROGRAM = """
import hashlib, os, pathlib, signal, sys, time
steps, pause, gate = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
folder = pathlib.Path(os.environ["WATTFOLD_SNAPSHOT_DIR"])
rank, ranks = int(os.environ["WATTFOLD_RANK"]), int(os.environ["WATTFOLD_RANKS"])
told = []
signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
done, value = 0, b""
if (folder / "state").exists():
    count, text = (folder / "state").read_text().split()
    done, value = int(count), bytes.fromhex(text)
name = f"attempt {os.environ['WATTFOLD_ATTEMPT']} rank {rank} of {ranks}"
with open(f"{gate}.log", "a") as log:
    log.write(f"{name} from {done} pid {os.getpid()}\\n")
while done < steps and not (rank and pathlib.Path(f"{gate}.result").exists()):
    late = "late" in sys.argv and not pathlib.Path(f"{gate}.save").exists()
    if told and not late and "deaf" not in sys.argv:
        if not rank:
            (folder / "new").write_text(f"{done} {value.hex()}")
            (folder / "new").rename(folder / "state")
        sys.exit(0)
    if rank or done == pause and not gate.exists():
        time.sleep(0.01)
        continue
    value, done = hashlib.sha256(value).digest(), done + 1
if not rank:
    pathlib.Path(f"{gate}.result").write_text(value.hex())
"""


def undisturbed() -> str:
    """The result of the program above, whatever happens to it."""
    value = b""
    for _ in range(STEPS):
        value = hashlib.sha256(value).digest()
    return value.hex()


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=3, policy="fifo-easy")


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    for job in shared.client.list_jobs().jobs:
        shared.client.cancel(job.job_id, force=True)
    wait_until("no jobs left", lambda: not shared.client.list_jobs().jobs)


class Runs:
    """A job of the program on one to three nodes."""

    def __init__(self, site: LiveSite, gate: Path, *words: str, grace_s: float = 60.0) -> None:
        self.site, self.gate = site, gate
        self.job_id = site.submit(
            [sys.executable, "-c", PROGRAM, str(STEPS), str(PAUSE), str(gate), *words],
            unit=pb.SIZE_UNIT_NODES,
            kind=pb.JOB_KIND_MALLEABLE,
            mode=common_pb2.RESIZE_MODE_RESTART,
            size_min=1,
            size_max=3,
            snapshot_signal=signal.SIGUSR1,
            snapshot_grace_ns=round(grace_s * 1e9),
        )

    def starts(self, attempt: int) -> list[str]:
        path = Path(f"{self.gate}.log")
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(f"attempt {attempt} ")]

    def pids(self, attempt: int) -> list[int]:
        return [int(line.rpartition(" ")[2]) for line in self.starts(attempt)]

    def runs(self, attempt: int, size: int) -> pb.Job:
        """Wait until all processes of an attempt have begun."""
        wait_until(f"attempt {attempt}", lambda: len(self.starts(attempt)) == size)
        job = self.site.running(self.job_id)
        assert (job.attempt, job.size, len(job.shares)) == (attempt, size, size)
        return job

    def resize(self, size: int | str) -> str:
        return self.site.wattfold("resize", self.job_id, str(size)).stdout

    def finish(self) -> pb.Job:
        self.gate.touch()
        job = self.site.ended(self.job_id)
        assert job.state == pb.JOB_STATE_COMPLETED, job
        assert Path(f"{self.gate}.result").read_text() == undisturbed()
        return job


def test_a_job_shrinks_and_grows_and_comes_to_the_same(site: LiveSite, tmp_path: Path) -> None:
    runs = Runs(site, tmp_path / "gate")
    runs.runs(1, 3)
    assert runs.resize(1) == f"{runs.job_id} 3 -> 1\n"
    job = runs.runs(2, 1)
    assert [share.node_id for share in job.shares] == ["n0"]
    runs.resize(2)
    runs.runs(3, 2)
    assert runs.resize("auto") == f"{runs.job_id}: the policy chooses the size again\n"
    shown = site.wattfold("show", runs.job_id).stdout
    assert "3 -> 1 nodes" in shown
    assert "1 -> 2 nodes" in shown
    job = runs.finish()
    assert (job.attempt, job.resizes) == (3, 2)
    audit = json.loads(site.wattfold("--json", "audit", "--job", runs.job_id).stdout)
    assert [e["action"] for e in audit["entries"]].count("ResizeJob") == 3


def test_nobody_gets_its_nodes_before_it_has_left_them(site: LiveSite, tmp_path: Path) -> None:
    runs = Runs(site, tmp_path / "gate", "late")
    runs.runs(1, 3)
    runs.resize(2)
    job = site.in_state(runs.job_id, pb.JOB_STATE_ENDING)
    assert (job.next_size, len(job.shares), job.reason) == (2, 3, "restarting: 3 -> 2 nodes")
    assert "restarting: 3 -> 2 nodes" in site.wattfold("queue").stdout
    assert "Restarting: 3 -> 2 nodes" in site.wattfold("explain", runs.job_id).stdout
    other = site.submit(["/bin/sleep", "60"], unit=pb.SIZE_UNIT_NODES)
    assert site.job(other).state == pb.JOB_STATE_PENDING
    assert all(alive(pid) for pid in runs.pids(1))
    Path(f"{runs.gate}.save").touch()
    job = runs.runs(2, 2)
    held = {share.node_id for share in job.shares}
    assert {share.node_id for share in site.running(other).shares}.isdisjoint(held)
    site.client.cancel(other)
    runs.finish()


def test_a_program_that_does_not_obey_goes_on_from_its_last_snapshot(
    site: LiveSite, tmp_path: Path
) -> None:
    runs = Runs(site, tmp_path / "gate", "deaf", grace_s=0.5)
    runs.runs(1, 3)
    runs.resize(2)
    job = runs.runs(2, 2)
    assert not any(alive(pid) for pid in runs.pids(1))
    assert "killed because it did not end within its grace time" in job.attempts[0].why
    runs.finish()


def test_a_program_that_finishes_when_it_is_told_to_save_has_finished(
    site: LiveSite, tmp_path: Path
) -> None:
    line = 'trap "exit 0" USR1; : > "$0"; while :; do sleep 0.02; done'
    job_id = site.submit(
        ["/bin/sh", "-c", line, str(tmp_path / "began")],
        kind=pb.JOB_KIND_MALLEABLE,
        mode=common_pb2.RESIZE_MODE_RESTART,
        size_max=2,
        snapshot_signal=signal.SIGUSR1,
    )
    wait_until("its trap", (tmp_path / "began").exists)
    size = site.running(job_id).size
    site.wattfold("resize", job_id, str(3 - size))
    job = site.ended(job_id)
    assert (job.state, job.attempt) == (pb.JOB_STATE_COMPLETED, 1)


def test_agents_and_coordinator_die_in_the_middle_of_it(site: LiveSite, tmp_path: Path) -> None:
    runs = Runs(site, tmp_path / "gate", grace_s=20.0)
    runs.runs(1, 3)
    runs.resize(1)
    site.kill_agent(0)
    site.coordinator.kill()
    site.coordinator.wait()
    site.start_agent(0)
    site.restart_coordinator()
    runs.runs(2, 1)
    # An orderly stop while the attempt ends.
    runs.resize(3)
    site.coordinator.send_signal(signal.SIGTERM)
    site.coordinator.wait()
    site.restart_coordinator()
    runs.runs(3, 3)
    for index in (1, 2):
        site.kill_agent(index)
    runs.resize(2)
    for index in (1, 2):
        site.start_agent(index)
    runs.runs(4, 2)
    assert runs.finish().attempt == 4


def test_a_job_on_cores_is_restarted_on_another_node(site: LiveSite, tmp_path: Path) -> None:
    """Its own node has no second core for the job."""
    holds = site.submit(["/bin/sleep", "600"])
    site.running(holds)
    began = tmp_path / "began"
    script = (
        "import os, pathlib, signal, sys, time\n"
        "def save(*_):\n"
        "    pathlib.Path(os.environ['WATTFOLD_SNAPSHOT_DIR'], 'state').write_text('1')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGUSR1, save)\n"
        "open(sys.argv[1], 'a').write(f'{os.getpid()} {os.environ[\"OMP_NUM_THREADS\"]}\\n')\n"
        "while True: time.sleep(0.05)\n"
    )
    job_id = site.submit(
        [sys.executable, "-c", script, str(began)],
        kind=pb.JOB_KIND_MALLEABLE,
        mode=common_pb2.RESIZE_MODE_RESTART,
        size_max=2,
        snapshot_signal=signal.SIGUSR1,
    )
    wait_until("its start", lambda: began.exists() and began.read_text().endswith("\n"))
    before = site.running(job_id)
    size = 3 - before.size
    pid = int(began.read_text().split()[0])
    site.wattfold("resize", job_id, str(size))
    wait_until("its second start", lambda: len(began.read_text().splitlines()) == 2)
    wait_pid_gone(pid)
    job = site.running(job_id)
    assert job.size == size
    assert began.read_text().splitlines()[1].split()[1] == str(size)
    os.kill(int(began.read_text().splitlines()[1].split()[0]), signal.SIGTERM)
    assert site.ended(job_id).state == pb.JOB_STATE_FAILED
    site.client.cancel(holds)


def test_sizes_that_cannot_be_are_refused(site: LiveSite, tmp_path: Path) -> None:
    runs = Runs(site, tmp_path / "gate")
    runs.runs(1, 3)
    assert "outside 1..3 nodes" in site.wattfold("resize", runs.job_id, "4", check=1).stderr
    rigid = site.submit(["/bin/sleep", "600"], held=True)
    assert "keeps the size" in site.wattfold("resize", rigid, "1", check=1).stderr
    assert "is not a size" in site.wattfold("resize", rigid, "many", check=2).stderr
    runs.finish()


def test_parm_takes_nodes_of_a_job_for_one_of_more_worth(
    start_site: Callable[..., LiveSite], tmp_path: Path
) -> None:
    site = start_site(nodes=3, policy="parm-wse")
    runs = Runs(site, tmp_path / "gate")
    runs.runs(1, 3)
    other = site.submit(
        ["/bin/sleep", "600"], unit=pb.SIZE_UNIT_NODES, priority=500.0, time_ns=3600 * 10**9
    )
    # A node is free once the job's process there has ended, before the last one ends.
    site.running(other)
    wait_until("attempt 2", lambda: runs.starts(2))
    job = site.running(runs.job_id)
    assert (job.attempt, job.resizes, job.spec.size_min) == (2, 1, 1)
    assert job.attempts[0].why.startswith("3 -> ")
    site.client.cancel(other)
    runs.finish()
