"""Static backfill and slowdown-driven sharing with real programs: experiment d, in miniature.

D'Amico, Jokanovic and Corbalan (ICPP 2019) ran 2000 jobs on 49 nodes under both policies. Here the
same stream of OpenMP and MPI programs runs on emulated nodes of this machine, once under
`fifo-easy` and once under `slowdown-driven`, with enough power for all jobs, and for several seeds.
`wattfold reproduce slowdown-driven d` calls this module and reports the results.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import programs, progress, records, runner, sharing_mix
from wattfold.coordinator.demo.layout import Layout
from wattfold.coordinator.demo.mix import Arrival
from wattfold.coordinator.demo.observer import FOREIGN_SHARE_MAX, disturbance, observer_of
from wattfold.coordinator.demo.site import DemoSite, SiteError, SitePlan
from wattfold.simulator.papers.slowdown_driven.measured import (
    MeasuredRuns,
    RealJob,
    RealRun,
    load,
    store,
)
from wattfold.simulator.papers.slowdown_driven.measured_claims import (
    SHARED,
    STATIC,
)
from wattfold.simulator.papers.slowdown_driven.settings import SEEDS
from wattfold.v1 import coordinator_pb2 as pb

_PROGRAMS = frozenset({"compute", "stream", "jacobi", "md", "hybrid"})
_SETTINGS = "solver_deadline_s = 20.0\nlease_s = 8.0\ntelemetry_interval_s = 0.25\n"
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingExtent:
    """Extent of the trial: jobs per seed, number of seeds, and a ``scale`` of run times."""

    jobs: int
    seeds: int
    scale: float = 1.0


FULL = SharingExtent(jobs=20, seeds=SEEDS)
QUICK = SharingExtent(jobs=8, seeds=1, scale=0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jobs:
    """The jobs of a seed, and the run time of each alone on all cores of its nodes, by name."""

    seed: int
    mix: Sequence[Arrival]
    alone_s: dict[str, float]


class SharingTrial:
    """Trial of the jobs of each seed under both policies, on a site in the folder ``work``."""

    def __init__(
        self,
        extent: SharingExtent,
        examples: Path,
        shim: Path,
        work: Path,
        interruption: runner.Interruption,
        console: Console,
    ) -> None:
        self._extent, self._work = extent, work
        self._examples, self._shim = examples, shim
        self._interruption, self._console = interruption, console
        self._layout: Layout = layouts.emulated()

    def all(self, *, quick: bool, kept: Path) -> MeasuredRuns:
        """Run every seed that is not in ``kept``, which each seed updates. Raises as its parts."""
        measured = self._before(kept, quick=quick)
        there = {run.seed for run in measured.runs}
        missing = [seed for seed in range(self._extent.seeds) if seed not in there]
        if not missing:
            return measured
        scratch = self._work / "programs"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        known = self._calibrated(scratch)
        for seed in missing:
            jobs = self._drawn(known, scratch, seed)
            runs = [self._run(policy, jobs) for policy in (STATIC, SHARED)]
            measured = replace(measured, runs=(*measured.runs, *runs))
            store(measured, kept)
        return measured

    def _before(self, kept: Path, *, quick: bool) -> MeasuredRuns:
        """Return earlier measurements; none if they are for another machine or another extent."""
        new = MeasuredRuns(
            processor=layouts.processor(),
            cores=len(os.sched_getaffinity(0)),
            nodes=len(self._layout.nodes),
            quick=quick,
            runs=(),
        )
        found = load(kept) if kept.is_file() else new
        return found if replace(found, runs=()) == new else new

    def _calibrated(self, scratch: Path) -> list[programs.Calibrated]:
        self._console.print("how fast the programs are on one core")
        known = []
        for program in programs.find(self._examples, scratch):
            self._interruption.check()
            if program.name in _PROGRAMS:
                known.append(programs.calibrate(program))
        return known

    def _drawn(self, known: Sequence[programs.Calibrated], scratch: Path, seed: int) -> _Jobs:
        extent = self._extent
        mix, alone_s = sharing_mix.arrivals(
            known, self._layout, scratch, count=extent.jobs, scale=extent.scale, seed=seed
        )
        names = [one.spec.name for one in mix]
        return _Jobs(seed=seed, mix=mix, alone_s=dict(zip(names, alone_s, strict=True)))

    def _run(self, policy: str, jobs: _Jobs) -> RealRun:
        layout, total = self._layout, len(jobs.mix)
        self._console.print(f"seed {jobs.seed}, {policy}: {total} jobs, {len(layout.nodes)} nodes")
        shown = progress.lines(self._console, total)
        logs = self._work / f"{policy}-{jobs.seed}"
        shutil.rmtree(logs, ignore_errors=True)
        with (
            DemoSite(_site_of(layout, policy, self._shim), logs) as site,
            CoordinatorClient(site.address) as client,
        ):
            nodes = runner.await_nodes(client, len(layout.nodes), self._interruption)
            with observer_of(site, nodes, client.power().budget_uw) as observer:
                finished = runner.run_mix(client, jobs.mix, shown, self._interruption)
            record = records.read_run(
                site.record, policy, finished.start_s, finished.end_s, observer.limits()
            )
        result = records.result(record, finished.jobs, finished.power, observer.observation())
        if (share := result.observed.foreign_share) > FOREIGN_SHARE_MAX:
            self._console.print(disturbance(share))
        return RealRun(
            policy=policy,
            seed=jobs.seed,
            jobs=tuple(_real_jobs(finished.jobs, jobs.alone_s)),
            energy_j=result.energy_j,
            resizes=result.resizes,
            committed_w_peak=result.committed_w_peak,
            budget_w=result.budget_w,
        )


def _site_of(layout: Layout, policy: str, shim: Path) -> SitePlan:
    each_w = layouts.BASE_W + layouts.PACKAGE_W + layouts.DRAM_W
    return SitePlan(
        nodes=layout.nodes,
        budget_w=len(layout.nodes) * each_w + 1,
        policy=policy,
        coordinator_settings=_SETTINGS,
        omp_shim=shim,
        restore_on_stop=True,
    )


def _real_jobs(jobs: Sequence[pb.Job], alone_s: dict[str, float]) -> list[RealJob]:
    first_s = min(job.submitted_at_s for job in jobs)
    return [
        RealJob(
            name=job.spec.name,
            nodes=job.spec.size_max,
            submitted_s=job.submitted_at_s - first_s,
            started_s=job.started_at_s - first_s,
            ended_s=job.ended_at_s - first_s,
            alone_s=alone_s[job.spec.name],
        )
        for job in jobs
    ]


def _interruptible(interruption: runner.Interruption) -> Callable[[int, object], None]:
    def interrupt(number: int, frame: object) -> None:
        del number, frame
        interruption.ask()

    return interrupt


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder with the built example programs.",
)
@click.option(
    "--shim",
    type=click.Path(path_type=Path),
    required=True,
    help="Shared library of the OpenMP shim.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File for the measurements.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for working files.",
)
@click.option(
    "--quick", is_flag=True, help="Run a short version of all trials, not the evaluation."
)
@click.option("--seeds", type=click.IntRange(1, 1000), help="Number of seeds for the drawn jobs.")
def main(examples: Path, shim: Path, out: Path, work: Path, quick: bool, seeds: int | None) -> None:
    """Runs the jobs in the folder --work, and writes what was measured to --out."""
    interruption = runner.Interruption()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interruptible(interruption))
    extent = QUICK if quick else FULL
    if seeds:
        extent = SharingExtent(jobs=extent.jobs, seeds=seeds, scale=extent.scale)
    console = Console(highlight=False, stderr=True, soft_wrap=True)
    trial = SharingTrial(extent, examples.resolve(), shim.resolve(), work, interruption, console)
    try:
        trial.all(quick=quick, kept=out)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (
        SiteError,
        CliError,
        programs.ProgramError,
        runner.RunError,
        OSError,
        ValueError,
    ) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(_INTERRUPTED if interruption.asked else 1)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    main()
