"""The small cluster of ANDREAS on this machine: a live site of three emulated nodes.

The service is real, with its policy, the agents that start, end and account jobs, and training
programs in numpy that save and resume. Nodes, GPUs, their power and epoch times are emulated
(`wattfold.shims.training_load`) from the measurements of the paper's authors, scaled down. First
`wattfold profile epochs` measures an epoch of each application on each node. Then the jobs are
submitted one after the other.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.demo.mix import environment
from wattfold.coordinator.demo.runner import ENDED, Interruption, RunError, await_nodes
from wattfold.coordinator.demo.site import DemoSite, NodePlan, SitePlan
from wattfold.simulator.papers.andreas.cluster import (
    APART_S,
    CORES,
    INTERVAL_S,
    NODES,
    ClusterJobResult,
    ClusterNode,
    ClusterRun,
    ProfiledRun,
    Submitted,
)
from wattfold.simulator.papers.andreas.measured import MeasuredApplication
from wattfold.simulator.papers.andreas.profiles import T4
from wattfold.simulator.papers.andreas.settings import CONSTANT_EUR, PUE
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

BUSY, MAY = 0.1, 0.125
"""Share of a core that a training job uses for each GPU, and its limit on an emulated node."""
BASE_W = 300.0
"""Base power of a node, without its packages and GPUs."""
PROBED_EPOCHS = 3
SAMPLE_S = 0.25
LEAST_INTERVAL_S = 1.0
RESTART_S = 1.0
LATEST = 4.0
"""Maximum time without a change of a job, relative to that from the first submission to the last
due date."""
STARTS_S = 60.0
"""Added to it: starts of processes, which take no less time at a small scale."""
_BUDGET_W = 100_000.0
_PROGRAM = "wattfold.shims.training_load"
_NODE = """base_power_w = {base}
floor_w = 9
dram_floor_w = 2
package_idle_w = 8
emulate = true
gpu_model = "{model}"
emulated_gpus = {gpus}
[emulation]
a = 1.5
b = 4.0
c = 8.0
f_low_ghz = 1.2
f_high_ghz = 2.6
package_min_w = 9
package_max_w = 45
dram_min_w = 2
dram_max_w = 5
dram_idle_w = 1
dram_dynamic_w = 3
cpu_share = {may}
window_ms = 250
throttle = "auto"
"""
_COORDINATOR = """lease_s = 20.0
telemetry_interval_s = 0.25
solver_deadline_s = 5.0
[andreas]
interval_s = {interval}
restart_s = {restart}
price_eur_per_kwh = {price}
pue = {pue}
"""


class TrainingTrial:
    """A run of the jobs on the cluster. ``scale``: seconds of the paper per second of the run."""

    def __init__(
        self,
        jobs: Sequence[Submitted],
        scale: float,
        folder: Path,
        interruption: Interruption,
        tell: Callable[[str], None],
    ) -> None:
        self._wanted, self._scale = jobs, scale
        self._folder, self._interruption, self._tell = folder, interruption, tell
        self._site = DemoSite(_plan(scale), folder)
        self._pace = threading.Event()
        self._client: CoordinatorClient
        self._energy_j = 0.0
        self._power: list[tuple[float, tuple[float, ...]]] = []

    def run(self) -> ClusterRun:
        """Measure profiles, run the jobs, and report. Raises RunError, SiteError, CliError."""
        with self._site:
            self._client = CoordinatorClient(self._site.address)
            try:
                await_nodes(self._client, len(NODES), self._interruption)
                probes = self._profile()
                jobs = self._train()
            finally:
                self._client.close()
        return ClusterRun(
            scale=self._scale,
            processor=platform.processor() or platform.machine(),
            cores=len(os.sched_getaffinity(0)),
            probes=tuple(probes),
            jobs=tuple(jobs),
            energy_j=self._energy_j,
            power=tuple(self._power),
        )

    def _profile(self) -> list[ProfiledRun]:
        """Measure epoch and power of each application on each number of GPUs of each node."""
        apps = list(dict.fromkeys(one.app for one in self._wanted))
        return [probe for app in apps for node in NODES for probe in self._probed(app, node)]

    def _probed(self, app: MeasuredApplication, node: ClusterNode) -> list[ProfiledRun]:
        found = []
        for gpus in range(1, node.gpus + 1):
            self._tell(f"profile: {app.app} on {gpus} x {node.gpu_model} of {node.name} (emulated)")
            seconds, watts = self._measured(app, node, gpus)
            found.append(
                ProfiledRun(
                    app=app.app,
                    node=node.name,
                    gpus=gpus,
                    epoch_s=seconds * self._scale,
                    watts=watts,
                )
            )
        return found

    def _measured(
        self, app: MeasuredApplication, node: ClusterNode, gpus: int
    ) -> tuple[float, float]:
        """Return seconds per epoch by `wattfold profile epochs`, and the node's power in W."""
        words = ("profile", "epochs", "--app", app.app, "--node", node.name, "--gpus", str(gpus))
        more = ("--epochs", str(PROBED_EPOCHS), "--", *self._command(app))
        wattfold = Path(sys.executable).with_name("wattfold")
        told = {**os.environ, "WATTFOLD_COORDINATOR": self._site.address}
        with subprocess.Popen(
            [str(wattfold), "--json", *words, *more],
            env=told,
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                watts = self._watched(process, node)
            except BaseException:
                # Otherwise it would wait for its job on a site that has ended.
                process.terminate()
                raise
            out, errors = process.communicate()
        if process.returncode or not watts:
            raise RunError(
                f"no profile of {app.app} on {node.name}: {errors.strip() or 'no watts'}"
            )
        profile = json.loads(out)["profile"]
        (seconds,) = [
            time["seconds"] for time in profile["epoch_times"] if int(time["gpus"]) == gpus
        ]
        # The median ignores samples at the start and the end of the program.
        steady = sorted(watts)
        return float(seconds), steady[len(steady) // 2]

    def _watched(self, process: subprocess.Popen[str], node: ClusterNode) -> list[float]:
        """Return the power of a node in W while a job runs there, until a process has ended."""
        watts: list[float] = []
        while process.poll() is None:
            self._interruption.check()
            if any(job.state == pb.JOB_STATE_RUNNING for job in self._jobs()):
                watts.append(self._watts()[node.name])
            self._pace.wait(SAMPLE_S / 2)
        return watts

    def _command(self, app: MeasuredApplication) -> list[str]:
        times = {node.name: [each / self._scale for each in _seconds(app, node)] for node in NODES}
        return [
            *(sys.executable, "-m", _PROGRAM, "--busy", str(BUSY)),
            *("--times", json.dumps(times)),
        ]

    def _train(self) -> list[ClusterJobResult]:
        """Submit all jobs at their times, and wait until they have ended."""
        began_s, ids = time.time(), dict[str, str]()
        last_s = max(n * APART_S + one.due_s for n, one in enumerate(self._wanted)) / self._scale
        sampled_s = changed_s = began_s
        before: list[object] = []
        while True:
            self._interruption.check()
            passed_s = time.time() - began_s
            while len(ids) < len(self._wanted) and passed_s >= len(ids) * APART_S / self._scale:
                one = self._wanted[len(ids)]
                ids[one.name] = self._submit(one, began_s)
                self._tell(f"{passed_s * self._scale:7.0f} s  {one.name} {one.app.app} submitted")
            now_s = time.time()
            self._sample(now_s - began_s, now_s - sampled_s)
            sampled_s = now_s
            jobs = self._jobs()
            if len(ids) == len(self._wanted) and all(job.state in ENDED for job in jobs):
                break
            states: list[object] = [(job.job_id, job.state, job.attempt) for job in jobs]
            if states != before:
                before, changed_s = states, now_s
            elif now_s - changed_s > LATEST * last_s + STARTS_S:
                raise RunError(f"no job has started or ended for {now_s - changed_s:.0f} s")
            self._pace.wait(SAMPLE_S)
        found = {job.job_id: job for job in jobs}
        return [self._told(one, found[ids[one.name]], n) for n, one in enumerate(self._wanted)]

    def _submit(self, one: Submitted, began_s: float) -> str:
        number = self._wanted.index(one)
        spec = pb.JobSpec(
            name=one.name,
            app=one.app.app,
            argv=self._command(one.app),
            env=environment() | {"OPENBLAS_NUM_THREADS": "1"},
            cwd=str(self._folder),
            kind=pb.JOB_KIND_MOLDABLE,
            unit=pb.SIZE_UNIT_UNITS,
            unit_cores=1,
            size_min=1,
            size_max=max(node.gpus for node in NODES),
            gpus=1,
            mode=common_pb2.RESIZE_MODE_RESTART,
            epochs=one.epochs,
            restartable=True,
            preemptable=True,
            due_at_s=began_s + (number * APART_S + one.due_s) / self._scale,
            weight=one.weight,
        )
        return self._client.submit(pb.SubmitRequest(spec=spec, idempotency_key=uuid.uuid4().hex))

    def _jobs(self) -> list[pb.Job]:
        return list(self._client.list_jobs([], include_ended=True).jobs)

    def _watts(self) -> dict[str, float]:
        """Return the total power of each node in W; measured power includes base power."""
        nodes = self._client.list_nodes().nodes
        return {node.node_id: node.measured_uw / 1e6 for node in nodes}

    def _sample(self, at_s: float, span_s: float) -> None:
        """Count the energy of nodes with a job since the last sample."""
        held = {
            share.node_id
            for job in self._jobs()
            if job.state not in ENDED and job.state != pb.JOB_STATE_PENDING
            for share in job.shares
        }
        watts = self._watts()
        row = tuple(watts[node.name] if node.name in held else 0.0 for node in NODES)
        self._energy_j += sum(row) * span_s * self._scale
        self._power.append((at_s * self._scale, row))

    def _told(self, one: Submitted, job: pb.Job, number: int) -> ClusterJobResult:
        if job.state != pb.JOB_STATE_COMPLETED or job.epochs_saved != one.epochs:
            raise RunError(
                f"{one.name} has {job.epochs_saved} of {one.epochs} epochs and ended as "
                f"{pb.JobState.Name(job.state)}: {job.message or 'see its error output'}"
            )
        attempts = sorted(job.attempts, key=lambda attempt: attempt.number)
        places = [", ".join(attempt.node_ids) for attempt in attempts]
        places.append(", ".join(share.node_id for share in job.shares))
        first_s = job.submitted_at_s - number * APART_S / self._scale
        starts = [attempt.started_at_s for attempt in attempts if attempt.started_at_s]
        begun_s = min([*starts, job.started_at_s])
        return ClusterJobResult(
            name=one.name,
            submitted_s=number * APART_S,
            started_s=(begun_s - first_s) * self._scale,
            ended_s=(job.ended_at_s - first_s) * self._scale,
            due_s=number * APART_S + one.due_s,
            nodes=tuple(place for place in places if place),
            epochs=job.epochs_saved,
        )


def _seconds(app: MeasuredApplication, node: ClusterNode) -> list[float]:
    """Return the authors' measured epoch times on 1, 2, ... GPUs of a node."""
    known = [app.t4_s] if node.gpu_model == T4 else [app.one_s, app.two_s]
    return known[: node.gpus]


def _plan(scale: float) -> SitePlan:
    cores = sorted(os.sched_getaffinity(0))
    cpus = CpuSet.of(cores[:CORES])
    return SitePlan(
        nodes=tuple(
            NodePlan(
                node_id=node.name,
                cpus=cpus,
                settings=_NODE.format(base=BASE_W, model=node.gpu_model, gpus=node.gpus, may=MAY),
            )
            for node in NODES
        ),
        budget_w=_BUDGET_W,
        policy="andreas",
        coordinator_settings=_COORDINATOR.format(
            interval=max(INTERVAL_S / scale, LEAST_INTERVAL_S),
            restart=RESTART_S,
            price=CONSTANT_EUR,
            pue=PUE,
        ),
    )
