"""Training jobs on a real site, ended repeatedly: by requeue, by kill, and with their agent.

There are more jobs than GPUs, and each has as many attempts as it takes. The trial checks the
environments of all live processes: no two jobs may have a GPU of a node at the same time. At the
end it compares the result of each job with an undisturbed training.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
from system.site.live_site import MARK, LiveSite, site_plan, wait_until
from system.training.gated import gated, lose, undisturbed

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

NODES, JOBS = 2, 3
WAYS = ("requeue", "requeue", "lose", "agent")


class Owners:
    """Samples the owners of each GPU, until it is stopped."""

    def __init__(self, mark: str) -> None:
        self._mark, self._stop = mark, threading.Event()
        self.twice: list[str] = []
        self.looks = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Owners:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._look()

    def _look(self) -> None:
        owners: dict[tuple[str, str], dict[str, psutil.Process]] = {}
        for process in psutil.process_iter():
            try:
                told = process.environ()
            except psutil.Error:
                continue
            if told.get(MARK) != self._mark or not told.get("WATTFOLD_GPUS"):
                continue
            node = told["WATTFOLD_SHIM_ENDPOINT"].split("/shims/")[0]
            for gpu in told["WATTFOLD_GPUS"].split(","):
                owners.setdefault((node, gpu), {})[told["WATTFOLD_JOB_ID"]] = process
        self.looks += 1
        for (node, gpu), jobs in owners.items():
            # Both still exist, so both existed at the same time.
            if len([p for p in jobs.values() if p.is_running() and p.status() != "zombie"]) > 1:
                self.twice.append(f"{gpu} of {node}: {sorted(jobs)}")


class Trial:
    """Some training jobs on a site, with a gate each."""

    def __init__(self, site: LiveSite, folder: Path, epochs: int, seed: int) -> None:
        self.site, self.epochs, self.chance = site, epochs, random.Random(seed)
        self.ends: Counter[str] = Counter()
        self.gates = [folder / f"gate{index}" for index in range(JOBS)]
        self.outs = [folder / f"out{index}" for index in range(JOBS)]
        for gate in self.gates:
            gate.write_text("1")
        self.jobs = [
            self._submit(gate, out) for gate, out in zip(self.gates, self.outs, strict=True)
        ]

    def _submit(self, gate: Path, out: Path) -> str:
        return self.site.submit(
            gated(gate, out),
            unit=pb.SIZE_UNIT_UNITS,
            unit_cores=1,
            gpus=1,
            mode=common_pb2.RESIZE_MODE_RESTART,
            epochs=self.epochs,
            requeue_max=99,
        )

    def end_one(self) -> None:
        """End a running job in one of the ways, and let all jobs train one epoch more."""
        job = wait_until("one that runs", self._running)
        way = self.chance.choice(WAYS)
        pid = self.site.pid(job.job_id)
        if way == "agent":
            index = int(job.shares[0].node_id.removeprefix("n"))
            self.site.kill_agent(index)
            lose(pid)
            self.site.start_agent(index)
        elif way == "lose":
            lose(pid)
        else:
            self.site.client.requeue(pb.RequeueRequest(job_id=job.job_id))
        wait_until("another attempt", lambda: self.site.job(job.job_id).attempt > job.attempt)
        self.ends[way] += 1
        done = sum(self.ends.values())
        for gate in self.gates:
            new = gate.with_suffix(".new")
            new.write_text(str(min(1 + done * self.epochs // 120, self.epochs - 1)))
            new.rename(gate)

    def _running(self) -> pb.Job | None:
        jobs = [self.site.job(job_id) for job_id in self.jobs]
        able = [job for job in jobs if job.state == pb.JOB_STATE_RUNNING and job.attempt < 99]
        return self.chance.choice(able) if able else None

    def finish(self) -> list[pb.Job]:
        """Let all jobs end."""
        for gate in self.gates:
            gate.write_text(str(self.epochs))
        return [self.site.ended(job_id) for job_id in self.jobs]


def main() -> None:
    """Run one trial and print a line of JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=100)
    options.add_argument("--epochs", type=int, default=40)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = undisturbed(folder, given.epochs)
        plan = site_plan(nodes=NODES, policy="fifo-easy", agent='gpus = ["0"]\n')
        site = LiveSite(plan, folder / "logs")
        with site, Owners(str(site.folder)) as owners:
            trial = Trial(site, folder, given.epochs, given.seed)
            while sum(trial.ends.values()) < given.times:
                trial.end_one()
            jobs = trial.finish()
            numbers = []
            for job in jobs:
                report = site.work / f"wattfold-{job.job_id}.snapshot" / "epochs"
                lines = report.read_text().splitlines()
                numbers.append([int(line.split()[0].split("=")[1]) for line in lines])
        site.check_record()
        same = [out.read_text() == wanted for out in trial.outs]
    told = {
        "ends": trial.ends,
        "attempts": [job.attempt for job in jobs],
        "completed": [job.state == pb.JOB_STATE_COMPLETED for job in jobs],
        "same": same,
        "each epoch once": [seen == list(range(1, given.epochs + 1)) for seen in numbers],
        "looks at owners": owners.looks,
        "owned twice": owners.twice,
        "seconds": round(time.monotonic() - began_s),
    }
    print(json.dumps(told))
    good = all(told["same"]) and all(told["completed"]) and all(told["each epoch once"])
    raise SystemExit(0 if good and not owners.twice else 1)


if __name__ == "__main__":
    main()
