"""Static backfill and slowdown-driven sharing on real programs: experiment d, in miniature.

D'Amico, Jokanovic and Corbalan (ICPP 2019) ran 2000 jobs on 49 nodes under both. Here the same
stream of OpenMP and MPI programs runs on emulated nodes of this machine, once under `fifo-easy` and
once under `slowdown-driven`, each with power for all. `scripts/demo_sharing` prepares the machine
and calls this.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from wattfold.coordinator.cli.shared.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import programs, progress, records, runner, sharing_mix
from wattfold.coordinator.demo.layout import Layout
from wattfold.coordinator.demo.mix import Arrival
from wattfold.coordinator.demo.site import Site, SiteError, SitePlan
from wattfold.v1 import coordinator_pb2 as pb

POLICIES = ("fifo-easy", "slowdown-driven")
PAPER = {"makespan_s": -7.0, "response_s": -16.0, "slowdown": -16.0, "energy_j": -6.0}
"""What sharing changed in the paper's run, per cent."""
_ROWS = (
    ("makespan", "makespan_s", "{:.1f} s"),
    ("mean response", "response_s", "{:.1f} s"),
    ("mean slowdown", "slowdown", "{:.2f}"),
    ("energy", "energy_j", "{:.0f} J"),
)
_SETTINGS = "solver_deadline_s = 20.0\nlease_s = 8.0\ntelemetry_interval_s = 0.25\n"
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one policy made of the jobs."""

    policy: str
    jobs: int
    makespan_s: float
    response_s: float
    """Mean of end minus submission."""
    slowdown: float
    """Mean of response over the time alone on all cores of its nodes."""
    energy_j: float
    """Of all nodes, base power included, until the last end."""
    resizes: int
    committed_w_peak: float
    budget_w: float


def trial(
    examples: Path,
    shim: Path,
    out: Path,
    *,
    jobs: int,
    scale: float,
    seed: int,
    interruption: runner.Interruption,
    console: Console,
) -> list[Outcome]:
    """Runs the jobs under each policy; files go below ``out``. Raises what its parts raise."""
    scratch = out / "work"
    for name in ("work", *POLICIES):
        shutil.rmtree(out / name, ignore_errors=True)
    scratch.mkdir(parents=True)
    plan = layouts.emulated()
    wanted = {"compute", "stream", "jacobi", "md", "hybrid"}
    known = []
    for program in programs.find(examples, scratch):
        interruption.check()
        if program.name in wanted:
            known.append(programs.calibrate(program))
    mix, alone_s = sharing_mix.arrivals(known, plan, scratch, count=jobs, scale=scale, seed=seed)
    found = []
    for policy in POLICIES:
        console.print(
            f"[bold]{policy}[/]: {len(mix)} jobs on {len(plan.nodes)} nodes", soft_wrap=True
        )
        shown = progress.lines(console, len(mix))
        found.append(_run(policy, plan, mix, alone_s, shim, out / policy, interruption, shown))
    return found


def _run(
    policy: str,
    layout: Layout,
    mix: Sequence[Arrival],
    alone_s: Sequence[float],
    shim: Path,
    logs: Path,
    interruption: runner.Interruption,
    shown: Callable[[pb.ClusterView, int], None],
) -> Outcome:
    each_w = layouts.BASE_W + layouts.PACKAGE_W + layouts.DRAM_W
    plan = SitePlan(
        nodes=layout.nodes,
        budget_w=len(layout.nodes) * each_w + 1,
        policy=policy,
        coordinator_settings=_SETTINGS,
        omp_shim=shim,
        restore_on_stop=True,
    )
    with Site(plan, logs) as site, CoordinatorClient(site.address) as client:
        runner.await_nodes(client, len(plan.nodes), interruption)
        finished = runner.run_mix(client, mix, shown, interruption)
        run = records.read_run(site.record, policy, finished.start_s, finished.end_s)
    result = records.result(run, finished.jobs, finished.power)
    by_name = dict(zip((one.spec.name for one in mix), alone_s, strict=True))
    slowdowns = [
        (job.ended_at_s - job.submitted_at_s) / by_name[job.spec.name] for job in finished.jobs
    ]
    return Outcome(
        policy=policy,
        jobs=result.jobs,
        makespan_s=result.makespan_s,
        response_s=result.mean_completion_s,
        slowdown=sum(slowdowns) / len(slowdowns),
        energy_j=result.energy_j,
        resizes=result.resizes,
        committed_w_peak=result.committed_w_peak,
        budget_w=result.budget_w,
    )


def change_percent(outcomes: Sequence[Outcome], key: str) -> float:
    """What the last policy changed of a figure of the first."""
    first, last = (float(getattr(one, key)) for one in (outcomes[0], outcomes[-1]))
    return 100 * (last / first - 1)


def table(outcomes: Sequence[Outcome]) -> Table:
    """The figures side by side, with the change and the paper's."""
    made = Table(title="Experiment d in miniature: the same jobs under both policies")
    for heading in ("", *(one.policy for one in outcomes), "change", "paper"):
        made.add_column(heading, justify="right" if heading else "left")
    for name, key, form in _ROWS:
        figures = [form.format(getattr(one, key)) for one in outcomes]
        made.add_row(
            name, *figures, f"{change_percent(outcomes, key):+.1f} %", f"{PAPER[key]:+.0f} %"
        )
    made.add_row("resizes", *(str(one.resizes) for one in outcomes), "", "")
    return made


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--examples", type=click.Path(path_type=Path), required=True, hidden=True)
@click.option("--shim", type=click.Path(path_type=Path), required=True, hidden=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("sharing-out"), show_default=True
)
@click.option("--jobs", type=click.IntRange(2, 500), default=20, show_default=True)
@click.option("--scale", type=click.FloatRange(0.05, 20), default=1.0, help="Length of the jobs.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the jobs drawn.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def main(
    examples: Path, shim: Path, out: Path, jobs: int, scale: float, seed: int, as_json: bool
) -> None:
    """Runs the same real jobs under static backfill and under slowdown-driven sharing."""
    interruption = runner.Interruption()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        interruption.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    console = Console(highlight=False, stderr=as_json)
    try:
        outcomes = trial(
            examples.resolve(),
            shim.resolve(),
            out.resolve(),
            jobs=jobs,
            scale=scale,
            seed=seed,
            interruption=interruption,
            console=console,
        )
    except KeyboardInterrupt:
        console.print("\nInterrupted: everything was stopped and all limits are restored.")
        sys.exit(_INTERRUPTED)
    except (SiteError, CliError, programs.ProgramError, runner.RunError, OSError) as error:
        console.print(f"[red]demo_sharing: {error}[/]", soft_wrap=True)
        sys.exit(_INTERRUPTED if interruption.asked else 1)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in outcomes], indent=2))
    else:
        console.print(table(outcomes))
    if any(one.committed_w_peak > one.budget_w for one in outcomes):
        console.print("[red]The budget was exceeded.[/]")
        sys.exit(1)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    main()
