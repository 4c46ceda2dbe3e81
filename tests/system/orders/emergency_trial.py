"""Emergencies that leave 50, 30 and 10 % of the budget, on eight emulated nodes with real programs.

Node n0 has a protected job, three nodes have jobs that are suspended, three have trainings that
are ended after a snapshot, and one is idle. Nodes without jobs are switched off. The limits in the
zones are read from outside, and compared with the steps that the dry run has announced: each step
must be reached within its time. The trial also measures what the protected job loses. Its speed
means something only on a machine without other load. The results of the trainings are compared,
byte by byte, with those of trainings that nothing disturbed.

Exit status 1 if a step is late, a job is lost, or a training ends with another result.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from system.orders.sleeping import PROGRAM
from system.site.live_site import BASE_W, EXAMPLES, PACKAGE_W, ROOT, LiveSite, site_plan, uw
from waiting import wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

NODES = 8
BUDGET_W = 480.0
"""Feeds every node at full power: 60 W each."""
ASLEEP_W, BOOT_W, SUSPEND_S = 3.0, 60.0, 20
LEFT = (0.5, 0.3, 0.1)
EPOCHS, SAMPLES = 600, 4096
WINDOW_S, WINDOWS = 5.0, 4
"""The speed of the protected job is the median over so many windows."""
_SETTINGS = """
[emergency]
protect_queues = ["urgent"]
jobs = "end"

[[queue]]
name = "urgent"

[[queue]]
name = "other"

[power]
suspend = "{program} off"
resume = "{program} on"
status = "{program} status"
account = "{account}"
asleep_w = {asleep}
boot_w = {boot}
boot_s = 60
suspend_s = {suspend}
"""


class Machines:
    """What the programs of the site switch, and the greatest sum of what the nodes may draw."""

    def __init__(self, site: LiveSite, folder: Path) -> None:
        self._site, self._folder = site, folder
        self._off = [False] * NODES
        self._samples: list[tuple[float, int]] = []
        self._protected_uw: list[tuple[float, int]] = []
        self._ends = threading.Event()
        self.error: BaseException | None = None
        for index in range(NODES):
            self._tell(index, "on")
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()

    def reached_s(self, since_s: float, limit_uw: int) -> float:
        """Seconds from a moment on until the sum was at this limit and stayed there."""
        above = [at_s for at_s, sum_uw in self._samples if sum_uw > limit_uw and at_s > since_s]
        return max(above, default=since_s) - since_s

    def least_cap_uw(self, since_s: float) -> int:
        """Return the least package cap of the node with the protected job since a moment."""
        return min(cap_uw for at_s, cap_uw in self._protected_uw if at_s >= since_s)

    def sum_uw(self) -> int:
        return self._samples[-1][1]

    def _follow(self) -> None:
        try:
            while not self._ends.wait(0.01):
                self._switch()
                self._samples.append((time.monotonic(), self._sum_uw()))
                cap_uw = self._site.limits_uw(0)["package"]
                self._protected_uw.append((time.monotonic(), cap_uw))
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            self.error = error

    def _sum_uw(self) -> int:
        return sum(
            uw(ASLEEP_W) if self._off[n] else uw(BASE_W) + sum(self._site.limits_uw(n).values())
            for n in range(NODES)
        )

    def _switch(self) -> None:
        for index in range(NODES):
            order = self._folder / f"n{index}.order"
            if not order.exists():
                continue
            on = order.read_text().strip() == "on"
            order.unlink()
            if on and self._off[index]:
                self._site.start_agent(index)
            elif not on and not self._off[index]:
                self._site.stop_agent(index)
            self._off[index] = not on
            self._tell(index, "on" if on else "off")

    def _tell(self, index: int, word: str) -> None:
        (self._folder / f"n{index}.told").write_text(word + "\n")
        (self._folder / f"n{index}.told").rename(self._folder / f"n{index}.power")


@dataclass(slots=True)
class Row:
    """What one emergency did."""

    left: float
    limit_w: float
    steps: list[tuple[str, float, float, float]] = field(default_factory=list)
    """Name, committed power (W), announced and measured time (s)."""
    short_w: float = 0.0
    cap_w: float = 0.0
    """Least package cap of the protected job."""
    loss: float = 0.0
    back_s: float = 0.0
    faults: list[str] = field(default_factory=list)


def jobs_of(site: LiveSite, number: int) -> dict[str, list[str]]:
    """Submit the jobs of a round and wait until they run."""
    compute = [str(EXAMPLES / "compute"), "10000000"]
    whole: dict[str, Any] = {"unit": pb.SIZE_UNIT_NODES}
    ids: dict[str, list[str]] = {"protected": [], "plain": [], "training": []}
    ids["protected"].append(site.submit(compute, queue="urgent", **whole))
    for _ in range(3):
        ids["plain"].append(site.submit(compute, queue="other", **whole))
    for one in range(3):
        ids["training"].append(
            site.submit(
                training_words(site.work / f"losses-{number}-{one}.txt"),
                queue="other",
                epochs=EPOCHS,
                restartable=True,
                snapshot_dir=f"snapshot-{number}-{one}",
                mode=common_pb2.RESIZE_MODE_FIXED,
                **whole,
            )
        )
    for job in itertools.chain(*ids.values()):
        site.running(job)
    return ids


def training_words(out: Path) -> list[str]:
    program = ROOT / "runtime_shims" / "examples" / "train_numpy.py"
    return [sys.executable, str(program), "--samples", str(SAMPLES), "--out", str(out)]


def target_uw(plan: dict[str, Any], step: dict[str, Any]) -> int:
    """Return the sum that a step reaches. Caps rise again to the limit when nodes are off."""
    return max(int(step["committed_uw"]), int(plan["limit_uw"]))


def undisturbed(folder: Path) -> bytes:
    """Return the result of a training that nothing disturbs."""
    out = folder / "undisturbed.txt"
    environment = os.environ | {
        "WATTFOLD_EPOCHS": str(EPOCHS),
        "WATTFOLD_SNAPSHOT_DIR": str(folder / "undisturbed"),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(training_words(out), env=environment, check=True, cwd=folder)
    return out.read_bytes()


def speed(pid: int) -> float:
    """Median CPU seconds a second of a process, all of its threads."""
    found = []
    for _ in range(WINDOWS):
        before, since = cpu_s(pid), time.monotonic()
        threading.Event().wait(WINDOW_S)
        found.append((cpu_s(pid) - before) / (time.monotonic() - since))
    return statistics.median(found)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def round_of(site: LiveSite, machines: Machines, left: float, number: int) -> Row:
    """Begin and end one emergency."""
    ids = jobs_of(site, number)
    everything = list(itertools.chain(*ids.values()))
    (protected,) = ids["protected"]
    pid = site.pid(protected)
    wait_until("full power", lambda: machines.sum_uw() > uw(0.85 * BUDGET_W))
    full = speed(pid)
    percent = f"{left * 100:g}%"
    words = ("--json", "budget", "emergency", percent)
    plan = json.loads(site.wattfold(*words, "--dry-run").stdout)
    row = Row(left=left, limit_w=int(plan["limit_uw"]) / 1e6)
    row.short_w = int(plan.get("short_uw", 0)) / 1e6
    since_s = time.monotonic()
    site.wattfold(*words)
    stopped: dict[str, float] = {}

    def all_steps_done() -> bool:
        for job in site.client.list_jobs().jobs:
            still = job.state in (pb.JOB_STATE_RUNNING, pb.JOB_STATE_ENDING)
            if not still and job.job_id not in stopped:
                stopped[job.job_id] = time.monotonic() - since_s
        wanted = [job for step in plan["steps"][1:] for job in step.get("job_ids", [])]
        last_uw = target_uw(plan, plan["steps"][-1])
        return all(job in stopped for job in wanted) and machines.sum_uw() <= last_uw

    wait_until(f"the steps of {percent}", all_steps_done)
    lost = 1 - speed(pid) / full
    for step in plan["steps"]:
        within_s, limit_uw = int(step["within_ns"]) / 1e9, target_uw(plan, step)
        times = [stopped[job] for job in step.get("job_ids", []) if step["name"] != "caps"]
        took_s = max(
            [*times, machines.reached_s(since_s, limit_uw)] if step["name"] != "end" else times
        )
        row.steps.append((step["name"], limit_uw / 1e6, within_s, took_s))
        if took_s > within_s:
            row.faults.append(f"{step['name']} took {took_s:.2f} s, announced {within_s:.2f} s")
    row.loss, row.cap_w = lost, machines.least_cap_uw(since_s) / 1e6
    if site.job(protected).state != pb.JOB_STATE_RUNNING:
        row.faults.append("the protected job does not run")
    since_s = time.monotonic()
    site.wattfold("budget", "emergency", "--end")
    for job in [*ids["protected"], *ids["plain"]]:
        site.running(job)
    wait_until(
        "the trainings go on",
        lambda: all(
            site.job(job).state in (pb.JOB_STATE_RUNNING, pb.JOB_STATE_COMPLETED)
            for job in ids["training"]
        ),
    )
    row.back_s = time.monotonic() - since_s
    known = {job.job_id for job in site.client.list_jobs(include_ended=True).jobs}
    row.faults += [f"job {job} is lost" for job in everything if job not in known]
    for job in ids["training"]:
        if site.ended(job).state != pb.JOB_STATE_COMPLETED:
            row.faults.append(f"training {job}: {site.job(job).message}")
    site.cancel_all()
    return row


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path, help="folder for the logs (default: deleted)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wf-emergency-"))
    logs = arguments.logs or folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    program = folder / "switch"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    settings = _SETTINGS.format(
        program=f"{program} {folder}",
        account=pwd.getpwuid(os.geteuid()).pw_name,
        asleep=ASLEEP_W,
        boot=BOOT_W,
        suspend=SUSPEND_S,
    )
    wanted = undisturbed(folder)
    plan = site_plan(
        nodes=NODES, policy="fifo-easy", budget_w=BUDGET_W, cpu_share=0.04, parm=settings
    )
    rows = []
    with LiveSite(plan, logs) as site:
        machines = Machines(site, folder)
        try:
            for number, left in enumerate(LEFT):
                row = round_of(site, machines, left, number)
                for path in site.work.glob(f"losses-{number}-*.txt"):
                    if path.read_bytes() != wanted:
                        row.faults.append(f"{path.name} is not the undisturbed result")
                if len(list(site.work.glob(f"losses-{number}-*.txt"))) != 3:
                    row.faults.append("a training has no result")
                rows.append(row)
                show(row)
                if machines.error is not None:
                    raise machines.error
        finally:
            machines.close()
    shutil.rmtree(folder, ignore_errors=True)
    return int(any(row.faults for row in rows))


def show(row: Row) -> None:
    """Print one emergency."""
    print(f"{row.left:.0%} of the budget left ({row.limit_w:g} W):")
    for name, committed_w, within_s, took_s in row.steps:
        print(
            f"  {name:8} {committed_w:6.1f} W   announced {within_s:5.1f} s   took {took_s:6.2f} s"
        )
    if row.short_w:
        print(f"  {row.short_w:.1f} W above the limit stay committed, as announced")
    kept = f"kept {row.cap_w:g} of {PACKAGE_W:g} W"
    print(f"  the protected job {kept} and lost {row.loss:.1%} of its speed")
    print(f"  all jobs were back after {row.back_s:.1f} s")
    for fault in row.faults:
        print(f"  FAULT: {fault}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
