"""Do jobs survive an upgrade of coordinator and agents, in both orders?

A real site of two emulated nodes runs an earlier version, from the tree of its commit. Jobs run on
both nodes, others are held. Then each service is stopped and started with this version: the
coordinator first and then one agent after the other, or the agents first. A job ends during each
stop, so no service sees its end. Between the steps, while versions are mixed, jobs are submitted,
resized and cancelled.

Checked are: each job keeps its process, cores of different jobs stay disjoint, each end is recorded
with its exit status and its only attempt, and the true limits of all zones stay within the budget
in samples. Exit status 1 if something deviates, 2 if the trial could not be made.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from system.site.live_site import BASE_W, MARK, ROOT, LiveSite, site_plan, uw, wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

BUDGET_W = 100.0
"""Two nodes draw up to 120 W, so caps matter."""
SOURCES = ("coordinator/src", "nodeagent/src", "runtime_shims/src", "proto/src", "proto/gen/python")
NODES = (0, 1)
WAITS = 'while [ ! -e "$0" ]; do sleep 0.05; done; exit "$1"'
_PACE_S = 0.02
_ORDERS = {"coordinator first": ("head", 0, 1), "agents first": (0, 1, "head")}
_ASKS = "import wattfold.commands, wattfold.coordinator.core as c; print(c.__path__[0])"


class VersionsSite(LiveSite):
    """A site whose services may have different versions."""

    def __init__(self, folder: Path, old: Path) -> None:
        plan = site_plan(nodes=len(NODES), budget_w=BUDGET_W, policy="parm-wse", cpu_share=1.0)
        super().__init__(replace(plan, omp_shim=None, kill_jobs=False), folder)
        self._old = old
        self.use(old)

    def use(self, tree: Path) -> None:
        """Start services of this tree from now on."""
        self.environment["PYTHONPATH"] = os.pathsep.join(str(tree / part) for part in SOURCES)
        told = subprocess.run(
            [sys.executable, "-c", _ASKS],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.startswith(str(tree)), told.stdout

    def sum_uw(self) -> int:
        """The true limits of all zones, with the base power of the nodes."""
        return sum(sum(self.limits_uw(index).values()) + uw(BASE_W) for index in NODES)


@dataclass(slots=True)
class Jobs:
    """The jobs of the trial, with the exit statuses that they must have."""

    site: VersionsSite
    codes: dict[str, int] = field(default_factory=dict)
    gates: dict[str, Path] = field(default_factory=dict)
    """A job ends when its file exists."""
    pids: dict[str, int] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    """Running jobs in the order in which they are to end."""

    def submit(self, code: int, **spec: object) -> str:
        gate = self.site.work / f"gate-{len(self.codes)}"
        env = {"PATH": os.environ["PATH"], MARK: str(self.site.folder)}
        argv = ["/bin/sh", "-c", WAITS, str(gate), str(code)]
        job_id = self.site.submit(argv, env=env, **spec)
        self.codes[job_id], self.gates[job_id] = code, gate
        return job_id

    def runs(self, job_id: str) -> None:
        """Wait until a job runs, and keep its process."""
        self.site.running(job_id)
        self.pids[job_id] = self.site.pid(job_id)

    def let_end(self, job_id: str) -> None:
        self.gates[job_id].touch()
        self.pids.pop(job_id, None)

    def check(self) -> None:
        """Check that running jobs have their processes and cores of their own."""
        for job_id, pid in self.pids.items():
            job = self.site.running(job_id)
            assert self.site.pid(job_id) == pid, f"job {job_id} has another process"
            assert job.attempt == 1, f"job {job_id} was started again"
        seen: set[tuple[str, str]] = set()
        for job in self.site.client.list_jobs().jobs:
            for share in job.shares:
                assert (share.node_id, share.cpus) not in seen, "cores are held twice"
                seen.add((share.node_id, share.cpus))


@contextmanager
def sampled(site: VersionsSite) -> Iterator[list[int]]:
    """Compare the sum of the limits with the budget while the block runs. Yields all sums."""
    sums: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(_PACE_S):
            sums.append(site.sum_uw())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield sums
    finally:
        over.set()
        thread.join()


def upgrade(site: VersionsSite, jobs: Jobs, part: str | int, new: Path) -> None:
    """Replace a service by this version. The next job ends while it is stopped."""
    ending = jobs.ends.pop(0)
    site.use(new)
    if part == "head":
        site.coordinator.terminate()
        site.coordinator.wait()
        jobs.let_end(ending)
        site.restart_coordinator()
    else:
        assert isinstance(part, int)
        site.stop_agent(part)
        jobs.let_end(ending)
        site.start_agent(part)
    site.ended(ending)
    wait_until("all nodes up", lambda: all(map(_up, site.client.list_nodes().nodes)))


def _up(node: pb.Node) -> bool:
    return node.state == pb.NODE_STATE_UP


def mixed(site: VersionsSite, jobs: Jobs, malleable: str) -> None:
    """Use the site while its versions are mixed."""
    jobs.check()
    site.wattfold("resize", malleable, "1")
    wait_until("the size", lambda: site.job(malleable).size == 1)
    site.wattfold("resize", malleable, "auto")
    extra = jobs.submit(0, kind=pb.JOB_KIND_RIGID)
    cancelled = site.submit(["sleep", "1000"], held=True)
    site.client.cancel(cancelled)
    jobs.let_end(extra)


def run(order: str, old: Path, new: Path, folder: Path) -> str:
    """Make one trial; return a line about it. Raises AssertionError."""
    with VersionsSite(folder, old) as site, sampled(site) as sums:
        jobs = Jobs(site)
        fixed = [jobs.submit(code) for code in (3, 0, 5)]
        mask = common_pb2.RESIZE_MODE_MASK
        kind = pb.JOB_KIND_MALLEABLE
        malleable = jobs.submit(7, kind=kind, size_min=1, size_max=2, mode=mask)
        for job_id in (*fixed[:2], malleable):
            jobs.runs(job_id)
        jobs.ends = list(fixed)
        waiting = [jobs.submit(code, size_min=2, held=True) for code in (0, 9)]
        for part in _ORDERS[order]:
            if jobs.ends[0] not in jobs.pids:
                jobs.runs(jobs.ends[0])
            upgrade(site, jobs, part, new)
            mixed(site, jobs, malleable)
        for job_id in waiting:
            site.client.release(job_id)
        for job_id in (malleable, *waiting):
            jobs.let_end(job_id)
        for job_id, code in jobs.codes.items():
            job = site.ended(job_id)
            assert (job.exit_code, job.attempt) == (code, 1), job
        history = {one.job_id: one.exit_code for one in listed(site)}
        assert {job_id: history.get(job_id) for job_id in jobs.codes} == jobs.codes
        site.check_record()
    most_w = max(sums) / 1e6
    assert most_w <= BUDGET_W, f"the limits had a sum of {most_w} W"
    done, seen = f"{len(jobs.codes)} jobs ended as they should", f"{len(sums)} samples"
    return f"{order}: {done}; {seen} up to {most_w:.1f} W of {BUDGET_W:.0f} W"


def listed(site: VersionsSite) -> list[pb.HistoryJob]:
    return list(site.client.list_history(pb.ListHistoryRequest()).jobs)


def tree_of(commit: str, folder: Path) -> Path:
    """Unpack the tree of a commit."""
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"trial_upgrade: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def main() -> int:
    """Make the trials; return the exit status."""
    parser = argparse.ArgumentParser(prog="trial_upgrade", description=__doc__)
    parser.add_argument("commit", help="commit of the earlier version")
    parser.add_argument("--order", choices=sorted(_ORDERS), help="make only this trial")
    given = parser.parse_args()
    # Jobs outlive their agents here, so an interrupted trial must end its site.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    failed = False
    with tempfile.TemporaryDirectory(prefix="wf-upgrade-") as name:
        folder = Path(name)
        old = tree_of(given.commit, folder / "old")
        for order in [given.order] if given.order else _ORDERS:
            logs = Path(tempfile.mkdtemp(prefix="wf-upgrade-logs-"))
            try:
                print(run(order, old, ROOT, logs), flush=True)
            except AssertionError as error:
                failed = True
                print(f"{order}: FAILED: {error} (logs: {logs})", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
