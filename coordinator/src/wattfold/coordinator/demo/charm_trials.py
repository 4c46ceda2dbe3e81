"""Measurements of resized Charm++ programs: the experiments of Kale, Kumar and DeSouza.

Their tables and figures are for 16 to 128 processors of clusters. Here, processors are the cores of
this machine. If there are more processors than cores, they share the cores in time.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import pairwise
from pathlib import Path

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.demo.charm_site import Load, LoadJob, LoadSite, cpu_s, held_nodes
from wattfold.coordinator.demo.layout import processor
from wattfold.coordinator.demo.runner import ENDED, Interruption
from wattfold.simulator.papers.equipartition.measured import (
    EquipartitionMeasurements,
    Interference,
    MeasuredMachine,
    ResidualLoad,
    ResizeTime,
    Series,
    SharingJob,
    SharingMeasurement,
    measured_once,
)
from wattfold.v1 import coordinator_pb2 as pb

SHORT_WORK, LONG_WORK = 4000, 800_000
"""Additions of a block, for steps of some milliseconds and of about half a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CharmExtent:
    """Extent of the trials. The data size is per processor, in bytes."""

    pes: tuple[int, ...] = (2, 4, 8)
    pe_bytes: tuple[int, ...] = (1_000_000, 4_000_000)
    repeats: int = 4
    residual_s: float = 20.0
    rooms: tuple[tuple[int, int, int], ...] = (
        (2, 1, LONG_WORK),
        (2, 2, LONG_WORK),
        (4, 1, LONG_WORK),
        (2, 1, SHORT_WORK * 4),
    )
    """Co-resident jobs: their number, processors of each, and additions of each of their blocks."""
    window_s: float = 8.0
    pairs: int = 3
    sharing_pes: int = 4
    phase_s: float = 8.0


FULL = CharmExtent()
QUICK = CharmExtent(
    pes=(2, 4),
    pe_bytes=(1_000_000, 2_000_000),
    repeats=2,
    residual_s=4.0,
    rooms=((2, 1, LONG_WORK),),
    window_s=3.0,
    pairs=2,
    sharing_pes=2,
    phase_s=3.0,
)
_RESIDUAL_WINDOW_S = 0.1
_SAMPLE_S = 0.25
_BIN_S = 0.5
_STANDS_S = 3.0


class Trials:
    """All trials in sequence. Before each, ``tell`` gets a line of text."""

    def __init__(
        self,
        extent: CharmExtent,
        folder: Path,
        interruption: Interruption,
        tell: Callable[[str], None],
    ) -> None:
        self._extent, self._folder = extent, folder
        self._interruption, self._tell = interruption, tell

    def all(self, *, quick: bool) -> EquipartitionMeasurements:
        """Run the trials that have not been run in this folder.

        Raises RunError, SiteError and CliError, and ValueError for a folder with other
        measurements.
        """
        extent, parts = self._extent, self._folder / ("parts-quick" if quick else "parts")
        parts.mkdir(parents=True, exist_ok=True)
        resizes: list[ResizeTime] = []
        for pes in extent.pes:
            for size in extent.pe_bytes:
                path = parts / f"resizes-{pes}-{size}.json"
                resizes += measured_once(path, list[ResizeTime], partial(self.resizes, pes, size))
        residual = measured_once(parts / "residual.json", list[ResidualLoad], self.residual)
        interference = [
            measured_once(
                parts / f"beside-{'-'.join(map(str, room))}.json",
                Interference,
                partial(self.interference, *room),
            )
            for room in extent.rooms
        ]
        return EquipartitionMeasurements(
            machine=machine(),
            quick=quick,
            resizes=tuple(resizes),
            residual=tuple(residual),
            interference=tuple(interference),
            sharing=tuple(
                measured_once(
                    parts / f"sharing-{pes}.json", SharingMeasurement, partial(self.sharing, pes)
                )
                for pes in self._shared()
            ),
        )

    def _site(self, name: str, nodes: int, policy: str = "equipartition") -> LoadSite:
        return LoadSite(nodes, self._folder / name, self._interruption, policy)

    def resizes(self, pes: int, pe_bytes: int) -> list[ResizeTime]:
        """Measure a job on ``pes`` processors that releases half of them and takes them again."""
        self._tell(f"shrink and expand: {pes} processors, {pe_bytes / 1e6:g} MB on each")
        load = Load(blocks=2 * pes, block_bytes=pe_bytes // 2, work=SHORT_WORK)
        found: list[ResizeTime] = []
        with self._site(f"resize-{pes}-{pe_bytes}", pes, policy="fifo-easy") as site:
            job = site.submit("resize", (1, pes), load)
            site.on(job, pes)
            for _ in range(self._extent.repeats):
                for size in (pes // 2, pes):
                    found.append(self._resized(site, job, size, pes, pe_bytes))
            site.end(job)
        return found

    def _resized(
        self, site: LoadSite, job: LoadJob, size: int, pes: int, pe_bytes: int
    ) -> ResizeTime:
        if site.client.list_profiles("resize").profiles:
            # Learnt costs are means, so each cost is learnt alone.
            site.client.drop_profile("resize", learnt_only=True, certificate=False)
        site.client.resize(job.job_id, size)
        site.on(job, size)

        def seen() -> pb.ResizeCost | None:
            known = site.client.list_profiles("resize").profiles
            return known[0].resize_costs[0] if known and known[0].resize_costs else None

        cost = site.until("the cost of the resize", seen)
        return ResizeTime(
            pes_from=pes if size < pes else pes // 2,
            pes_to=size,
            pe_bytes=pe_bytes,
            took_s=cost.took_ns / NS_PER_S,
            stalled_s=cost.stalled_ns / NS_PER_S,
            moved_bytes=cost.moved_bytes,
        )

    def residual(self) -> list[ResidualLoad]:
        """Measure the load on the second of two processors after the job has left it."""
        self._tell("residual load of a vacated processor")
        found = []
        with self._site("residual", 2, policy="fifo-easy") as site:
            for program, work in (("steps", SHORT_WORK * 4), ("long steps", LONG_WORK)):
                job = site.submit("residual", (1, 2), Load(blocks=4, work=work))
                site.on(job, 2)
                site.client.resize(job.job_id, 1)
                left = set(held_nodes(site.on(job, 1)))
                (pid,) = site.processors(job, next(n for n in ("n0", "n1") if n not in left))
                found.append(self._loads(site, job, pid, program))
                if work == LONG_WORK:
                    job.idle.touch()
                    site.until("no more steps", lambda job=job: _stands(job))  # type: ignore[misc]
                    found.insert(0, self._loads(site, job, pid, "no steps"))
                    job.idle.unlink()
                site.end(job)
        return found

    def _loads(self, site: LoadSite, job: LoadJob, pid: int, program: str) -> ResidualLoad:
        loads: list[float] = []
        before = [time.monotonic(), cpu_s(pid)]
        began_s = before[0]

        def look(_passed_s: float) -> None:
            now_s, used_s = time.monotonic(), cpu_s(pid)
            if now_s - before[0] >= _RESIDUAL_WINDOW_S / 2:
                loads.append((used_s - before[1]) / (now_s - before[0]))
                before[:] = [now_s, used_s]

        site.watch(_RESIDUAL_WINDOW_S, self._extent.residual_s, look)
        steps = [count for at_s, count in job.steps() if at_s >= began_s]
        made = steps[-1] - steps[0] if len(steps) > 1 else 0
        return ResidualLoad(
            program=program,
            step_s=(before[0] - began_s) / made if made else 0.0,
            window_s=_RESIDUAL_WINDOW_S,
            loads=tuple(loads),
        )

    def interference(self, jobs: int, each: int, work: int) -> Interference:
        """Measure co-resident jobs that were started on all processors or on their own only."""
        self._tell(f"co-resident jobs: {jobs} on {each} processor{'s' * (each > 1)} each")
        pes, rates = jobs * each, {True: list[float](), False: list[float]()}
        with self._site(f"beside-{jobs}-{each}", pes) as site:
            for _ in range(self._extent.pairs):
                for adaptive in (True, False):
                    sizes = (each, pes if adaptive else each)
                    rates[adaptive].append(self._together(site, jobs, each, sizes, work))
        return Interference(
            jobs=jobs, pes_each=each, adaptive=tuple(rates[True]), rigid=tuple(rates[False])
        )

    def _together(
        self, site: LoadSite, jobs: int, each: int, sizes: tuple[int, int], work: int
    ) -> float:
        load = Load(blocks=4 * each, work=work)
        running = [site.submit(f"beside{number}", sizes, load) for number in range(jobs)]
        for job in running:
            site.on(job, each)
        from_s = time.monotonic()
        site.watch(self._extent.window_s / 4, self._extent.window_s, lambda _: None)
        to_s = time.monotonic()
        rate = sum(job.rate(from_s, to_s) for job in running)
        site.end(*running)
        return rate

    def _shared(self) -> list[int]:
        """Return the numbers of processors to share: as configured, and one core for each."""
        most = self._extent.sharing_pes
        return sorted({most, min(most, max(2, machine().cores))}, reverse=True)

    def sharing(self, pes: int) -> SharingMeasurement:
        """Measure a second job that joins a first job and ends before it."""
        extent = self._extent
        self._tell(f"two jobs share {pes} processors")
        load = Load(blocks=4 * pes, work=SHORT_WORK * 4)
        with self._site(f"sharing-{pes}", pes) as site:
            first = site.submit("job1", (1, pes), load)
            site.on(first, pes)
            # The last of its nodes changes hands.
            seen = _Samples(site, first, f"n{pes - 1}")
            site.watch(_SAMPLE_S, extent.phase_s, seen.look)
            arrives_s = seen.passed_s()
            second = site.submit("job2", (1, pes), load)
            seen.add(second)
            while not second.steps():
                site.watch(_SAMPLE_S, _SAMPLE_S, seen.look)
            site.watch(_SAMPLE_S, extent.phase_s, seen.look)
            second.stop.touch()
            while site.job(second).state != pb.JOB_STATE_COMPLETED:
                site.watch(_SAMPLE_S, _SAMPLE_S, seen.look)
            ended_s = seen.passed_s()
            site.watch(_SAMPLE_S, extent.phase_s, seen.look)
            site.end(first)
            return SharingMeasurement(
                pes=pes, arrives_s=arrives_s, ended_s=ended_s, jobs=seen.series("Job 1", "Job 2")
            )


class _Samples:
    """Samples of the cores that jobs hold and use on a node."""

    def __init__(self, site: LoadSite, first: LoadJob, node_id: str) -> None:
        self._site, self._node_id = site, node_id
        self._began_s = time.monotonic()
        self._jobs: list[LoadJob] = []
        self._held: list[list[tuple[float, float]]] = []
        self._used: list[list[tuple[float, float]]] = []
        self.add(first)

    def add(self, job: LoadJob) -> None:
        """Add a job to the samples."""
        self._jobs.append(job)
        self._held.append([])
        self._used.append([])

    def passed_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began_s

    def look(self, _passed_s: float) -> None:
        """Take a sample of all jobs."""
        for at, job in enumerate(self._jobs):
            told = self._site.job(job)
            # An ended job is reported with its former nodes.
            held = 0.0 if told.state in ENDED else float(len(held_nodes(told)))
            pids = self._site.processors(job, self._node_id)
            now_s = self.passed_s()
            self._held[at].append((now_s, held))
            self._used[at].append((now_s, sum(map(cpu_s, pids))))

    def series(self, *names: str) -> tuple[SharingJob, SharingJob]:
        """Return the series of the two jobs."""
        first, second = (self._of(at, name) for at, name in enumerate(names))
        return first, second

    def _of(self, at: int, name: str) -> SharingJob:
        used = self._used[at]
        loads = [
            (then_s, max(more - less, 0.0) / (then_s - at_s))
            for (at_s, less), (then_s, more) in pairwise(used)
            if then_s - at_s >= _SAMPLE_S / 2
        ]
        return SharingJob(
            name=name,
            held=tuple(self._held[at]),
            throughput=throughput(self._jobs[at].steps(), self._began_s),
            load=tuple(loads),
        )


def throughput(steps: Sequence[tuple[float, int]], began_s: float) -> Series:
    """Return the steps per second from a time on, at the centres of bins of at least `_BIN_S`."""
    found: list[tuple[float, float]] = []
    seen = [(at_s - began_s, count) for at_s, count in steps if at_s >= began_s]
    start = 0
    for at, (then_s, count) in enumerate(seen):
        at_s, before = seen[start]
        if then_s - at_s >= _BIN_S:
            found.append(((at_s + then_s) / 2, (count - before) / (then_s - at_s)))
            start = at
    return tuple(found)


def _stands(job: LoadJob) -> bool:
    """Whether the job has made no step for a while."""
    steps = job.steps()
    return bool(steps) and time.monotonic() - steps[-1][0] > _STANDS_S


def machine() -> MeasuredMachine:
    """This one."""
    return MeasuredMachine(
        processor=processor(),
        cores=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        charm4py=metadata.version("charm4py"),
    )
