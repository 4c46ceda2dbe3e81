"""The demonstration: the same real jobs under PARM and two baselines, with one power budget.

Both baselines are FIFO with backfill: once at full power, and once with the uniform cap that the
budget allows for all nodes.

`scripts/demo` prepares the machine and calls this. It ends with a table and a picture.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import mix, programs, runner
from wattfold.coordinator.demo.comparison import POLICIES, PROFILES, Setup, compare
from wattfold.coordinator.demo.site import SiteError
from wattfold.coordinator.demo.time_left import DemoPart, TimeLeft

_INTERRUPTED = 130
DEFAULT_SCALE = 0.7
_USUAL_S = {"parm-wse": 58.0, "easy-uniform": 79.0, "fifo-easy": 102.0}
"""Usual times of the runs with a scale of 1, on two idle cores."""
_CALIBRATE, _CHARM = "calibrate", "charm"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    required=True,
    hidden=True,
    help="Folder with the built example programs.",
)
@click.option(
    "--shim",
    type=click.Path(path_type=Path),
    required=True,
    hidden=True,
    help="Shared library of the OpenMP shim.",
)
@click.option("--real", is_flag=True, help="Use the RAPL zones of this machine. Needs root.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-out"),
    show_default=True,
    metavar="DIR",
    help="Folder for results, table, picture and the outputs of the jobs.",
)
@click.option(
    "--scale",
    type=click.FloatRange(0.05, 20),
    default=DEFAULT_SCALE,
    show_default=True,
    help="Amount of work of each job. The three runs take time in proportion.",
)
@click.option(
    "--throttle",
    type=click.Choice(["auto", "cgroup", "signals"]),
    default="auto",
    show_default=True,
    help="Mechanism by which emulated caps slow jobs down. auto: cgroup if this account may use "
    "it, or else signals.",
)
@click.option(
    "--kill-coordinator",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="Kill the coordinator (SIGKILL) this many seconds into each run, then restart it. "
    "Default: never.",
)
@click.option(
    "--repeats",
    type=click.IntRange(0, 10),
    default=1,
    show_default=True,
    help="Number of runs that may be repeated. A run is repeated if other processes of the "
    "machine use more than 5 % of the CPU time of its cores.",
)
@click.option(
    "--charm/--no-charm",
    default=True,
    show_default=True,
    help="End with a Charm++ job that shrinks by one node and expands again.",
)
@click.option(
    "--web",
    is_flag=True,
    help="Serve the dashboard during the runs and print its links. Keeps a screenshot of each run "
    "as web-POLICY.png if Chromium is installed. Runs are not repeated.",
)
def main(
    examples: Path,
    shim: Path,
    real: bool,
    out: Path,
    scale: float,
    throttle: str,
    kill_coordinator: float,
    repeats: int,
    charm: bool,
    web: bool,
) -> None:
    """Run the same real jobs under PARM and two baselines, with one power budget.

    The jobs arrive on four emulated nodes on this machine. The demonstration shows power and cores
    while they run. At the end it prints a table, and writes results.json, demo.md and demo.png.
    """
    interruption = runner.Interruption()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        interruption.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    console = Console(highlight=False)
    scratch = out.resolve() / "work"
    try:
        _clean(out)
        scratch.mkdir(parents=True)
        site_layout = layouts.real() if real else layouts.emulated(throttle)
        steps = [DemoPart(name=_CALIBRATE, usual_s=12.0), DemoPart(name=PROFILES, usual_s=15.0)]
        steps += [DemoPart(name=name, usual_s=_USUAL_S[name] * scale) for name in POLICIES]
        steps += [DemoPart(name=_CHARM, usual_s=12.0)] if charm else []
        time_left = TimeLeft(steps)
        console.print(f"[bold]1. Calibrating[/] programs on one core ({time_left.text()})")
        known: list[programs.Calibrated] = []
        for program in programs.find(examples.resolve(), scratch):
            interruption.check()
            known.append(programs.calibrate(program))
        console.print("   " + ", ".join(entry.program.name for entry in known))
        if missing := programs.MAY_BE_MISSING.keys() - {entry.program.name for entry in known}:
            reasons = ", ".join(f"{programs.MAY_BE_MISSING[name]}" for name in sorted(missing))
            console.print(f"   left out: {reasons}")
        jobs = mix.arrivals(known, site_layout, scratch, scale)
        setup = Setup(
            layout=site_layout,
            programs=tuple(known),
            mix=tuple(jobs),
            out=out.resolve(),
            shim=shim.resolve(),
            kill_at_s=kill_coordinator,
            scale=scale,
            repeats=0 if web else repeats,
            web=web,
            time_left=time_left,
            interruption=interruption,
        )
        compare(setup, console)
        if charm and any(entry.program.name == "blocks" for entry in known):
            _show_charm(setup, len(POLICIES) + 2, console)
    except KeyboardInterrupt:
        console.print("\nInterrupted: everything was stopped and all limits are restored.")
        sys.exit(_INTERRUPTED)
    except (
        SiteError,
        CliError,
        layouts.LayoutError,
        programs.ProgramError,
        runner.RunError,
        OSError,
    ) as error:
        if interruption.asked:
            # Ctrl-C on a terminal ends a program under trial too; that is no failure of it.
            console.print("\nInterrupted: everything was stopped and all limits are restored.")
            sys.exit(_INTERRUPTED)
        console.print(f"[red]demo: {error}[/]", soft_wrap=True)
        sys.exit(1)


def _show_charm(setup: Setup, step: int, console: Console) -> None:
    """Show a Charm++ job that shrinks and expands, line by line."""
    # Only now: a demonstration without charm4py has no need of it.
    from wattfold.coordinator.demo.charm_nodes import show

    setup.time_left.begin(_CHARM)
    left = setup.time_left.text()
    console.print(f"\n[bold]{step}. Charm++[/]: a job shrinks and expands ({left})")

    def tell(line: str) -> None:
        console.print(f"   {line}", soft_wrap=True)

    show(setup.out / "charm", setup.interruption, tell)


def _clean(out: Path) -> None:
    """Takes an earlier run's files away, and nothing else."""
    for name in ("work", "charm", *POLICIES):
        shutil.rmtree(out / name, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    main()
