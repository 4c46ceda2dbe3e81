"""A run of the demonstration: submits the mix to a site and monitors it until its end."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from wattfold.coordinator.cli.profiles.probing import MeasuredProgram, Probe, run_probe
from wattfold.coordinator.cli.profiles.profile_fit import Fitted, fit_points, node_curve
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import UnreachableError
from wattfold.coordinator.demo.mix import Arrival, environment
from wattfold.coordinator.demo.programs import Calibrated
from wattfold.v1 import coordinator_pb2 as pb

VIEW_INTERVAL_NS = 250_000_000
NODES_UP_S = 30.0
STALLED_S = 30.0
ENDED = frozenset(
    {
        pb.JOB_STATE_COMPLETED,
        pb.JOB_STATE_FAILED,
        pb.JOB_STATE_CANCELLED,
        pb.JOB_STATE_LOST,
        pb.JOB_STATE_TIMED_OUT,
    },
)


STILL = ENDED | {pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD}
"""States in which a job holds nothing."""


class RunError(Exception):
    """A run failed; the message names the job or node, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Result of a run: its jobs, the power figures, and its times (Unix seconds)."""

    jobs: tuple[pb.Job, ...]
    power: pb.Power
    start_s: float
    end_s: float


class Interruption:
    """Request to end the run. A signal handler sets it, and every loop checks it.

    An exception raised by the handler would occur anywhere in the program. Inside the gRPC library
    it is dropped, or leaves a lock locked that closing the channel waits for.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """Record the request to end the run. A second request raises KeyboardInterrupt."""
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether the run is to end."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise KeyboardInterrupt if the run is to end."""
        if self._asked.is_set():
            raise KeyboardInterrupt


def await_nodes(
    client: CoordinatorClient,
    count: int,
    interruption: Interruption,
) -> list[pb.Node]:
    """Wait until all nodes are up."""
    until_s = time.monotonic() + NODES_UP_S
    for view in client.watch(VIEW_INTERVAL_NS):
        interruption.check()
        up = [node for node in view.nodes if node.state == pb.NODE_STATE_UP]
        if len(up) == count:
            return list(view.nodes)
        if time.monotonic() > until_s:
            break
    states = ", ".join(f"{n.node_id}: {n.message}" for n in client.list_nodes().nodes)
    raise RunError(f"not all {count} nodes came up within {NODES_UP_S:.0f} s ({states})")


def measure_profiles(
    client: CoordinatorClient,
    programs: Sequence[Calibrated],
    probes: Sequence[Probe],
    cpu_s: float,
    notice: Callable[[str], None],
    interruption: Interruption,
) -> list[Fitted]:
    """Measure every program at every point, as parallel as the budget allows, and store fits."""

    curve = node_curve(client.list_nodes().nodes)

    def measure(entry: Calibrated) -> Fitted:
        program = MeasuredProgram(
            app=entry.program.name,
            argv=entry.program.command(entry.work_for(cpu_s)),
            cwd=str(entry.program.folder),
            environment=environment(),
        )
        points = []
        for probe in probes:
            interruption.check()
            points.append(run_probe(client, program, probe, lambda _: None))
        fitted = fit_points(entry.program.name, points, time.time(), curve)
        client.put_profile(fitted.profile)
        notice(
            f"{entry.program.name}: {len(points)} points, {fitted.result.rms_relative_error:.0%} "
            "rms error",
        )
        return fitted

    with ThreadPoolExecutor(max_workers=len(programs)) as pool:
        return list(pool.map(measure, programs))


def run_mix(
    client: CoordinatorClient,
    mix: Sequence[Arrival],
    show: Callable[[pb.ClusterView, int], None],
    interruption: Interruption,
    during: Callable[[float], None] | None = None,
    submit: Callable[[pb.JobSpec], str] | None = None,
) -> Finished:
    """Submit the jobs at their arrival times, and return when the last job has ended.

    ``show`` gets every view and the number of ended jobs; ``during`` gets the seconds since the
    start. ``submit`` submits a job in another way than to the coordinator, and returns its ID.
    """
    start_s, start = time.time(), time.monotonic()
    waiting = sorted(mix, key=lambda arrival: arrival.at_s)
    ids: list[str] = []
    busy_s = 0.0
    for view in _views(client):
        interruption.check()
        now_s = time.monotonic() - start
        while waiting and waiting[0].at_s <= now_s:
            spec = waiting.pop(0).spec
            request = pb.SubmitRequest(spec=spec, idempotency_key=uuid.uuid4().hex)
            ids.append(submit(spec) if submit is not None else client.submit(request))
        if during is not None:
            during(now_s)
        jobs = _jobs(client, ids)
        ended = [job for job in jobs if job.state in ENDED]
        show(view, len(ended))
        if not waiting and len(ended) == len(mix):
            break
        if waiting or any(job.state not in STILL for job in jobs):
            busy_s = now_s
        elif now_s - busy_s > STALLED_S:
            raise _stalled(jobs)
    _check(jobs)
    power = client.power()
    return Finished(jobs=tuple(jobs), power=power, start_s=start_s, end_s=time.time())


def _views(client: CoordinatorClient) -> Iterator[pb.ClusterView]:
    """Yield views without end, also across a restart of the coordinator."""
    last = time.monotonic()
    while True:
        try:
            for view in client.watch(VIEW_INTERVAL_NS):
                last = time.monotonic()
                yield view
        except UnreachableError:
            if time.monotonic() - last > NODES_UP_S:
                raise


def _stalled(jobs: Sequence[pb.Job]) -> RunError:
    job = next(job for job in jobs if job.state not in ENDED)
    return RunError(
        f"no job has run for {STALLED_S:.0f} s: job {job.job_id} ({job.spec.name}) waits, "
        f"{job.reason}",
    )


def _jobs(client: CoordinatorClient, ids: Sequence[str]) -> list[pb.Job]:
    return list(client.list_jobs(ids).jobs) if ids else []


def _check(jobs: Sequence[pb.Job]) -> None:
    bad = [job for job in jobs if job.state != pb.JOB_STATE_COMPLETED]
    if bad:
        job = bad[0]
        state = pb.JobState.Name(job.state).removeprefix("JOB_STATE_").lower()
        raise RunError(
            f"job {job.job_id} ({job.spec.name}) {state} with exit code {job.exit_code}: "
            f"{job.message or 'see ' + _errors_of(job)}",
        )


def _errors_of(job: pb.Job) -> str:
    """Return the path of the error output of its first process."""
    several = len(job.shares) > 1 and not job.spec.own_launcher
    return job.spec.stderr_path + (".0" if several else "")
