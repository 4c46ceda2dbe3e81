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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.cli.profiles.probing import Probe
from wattfold.coordinator.cli.shared.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.site.watch_screen import WatchScreen
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import mix, programs, progress, records, report, runner
from wattfold.coordinator.demo.layout import Layout
from wattfold.coordinator.demo.site import Site, SiteError, SitePlan
from wattfold.coordinator.demo.time_left import Step, TimeLeft
from wattfold.coordinator.figures.comparison_table import comparison_table
from wattfold.coordinator.figures.run_record import PolicyResult, PolicyRun
from wattfold.v1 import coordinator_pb2 as pb

PROBE_CPU_S = 0.12
PROBE_CAPS_W = (15.5, 44.75)
_SETTINGS = """solver_deadline_s = 2.0
lease_s = 8.0
telemetry_interval_s = 0.25
[parm]
resize_interval_s = 3.0
"""
_INTERRUPTED = 130
_POLICIES = ("parm-wse", "easy-uniform", "fifo-easy")
"""Order of the runs; the first one measures the profiles. Table and picture reverse the order."""
DEFAULT_SCALE = 0.7
_USUAL_S = {"parm-wse": 58.0, "easy-uniform": 79.0, "fifo-easy": 102.0}
"""Usual times of the runs with a scale of 1, on two idle cores."""
_CALIBRATE, _PROFILES, _CHARM = "calibrate", "profiles", "charm"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    layout: Layout
    programs: tuple[programs.Calibrated, ...]
    mix: tuple[mix.Arrival, ...]
    out: Path
    shim: Path
    kill_at_s: float
    scale: float
    time_left: TimeLeft
    interruption: runner.Interruption


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
    "--charm/--no-charm",
    default=True,
    show_default=True,
    help="End with a Charm++ job that shrinks by one node and expands again.",
)
def main(
    examples: Path,
    shim: Path,
    real: bool,
    out: Path,
    scale: float,
    throttle: str,
    kill_coordinator: float,
    charm: bool,
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
        steps = [Step(name=_CALIBRATE, usual_s=12.0), Step(name=_PROFILES, usual_s=15.0)]
        steps += [Step(name=name, usual_s=_USUAL_S[name] * scale) for name in _POLICIES]
        steps += [Step(name=_CHARM, usual_s=12.0)] if charm else []
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
        setup = _Setup(
            layout=site_layout,
            programs=tuple(known),
            mix=tuple(jobs),
            out=out.resolve(),
            shim=shim.resolve(),
            kill_at_s=kill_coordinator,
            scale=scale,
            time_left=time_left,
            interruption=interruption,
        )
        _run_all(setup, console)
        if charm and any(entry.program.name == "blocks" for entry in known):
            _show_charm(setup, len(_POLICIES) + 2, console)
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


def _show_charm(setup: _Setup, step: int, console: Console) -> None:
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
    for name in ("work", "charm", *_POLICIES):
        shutil.rmtree(out / name, ignore_errors=True)


def _run_all(setup: _Setup, console: Console) -> None:
    profiles: list[pb.Profile] = []
    runs: list[PolicyRun] = []
    results: list[PolicyResult] = []
    for step, policy in enumerate(_POLICIES, 2):
        run, result = _run_policy(setup, policy, step, profiles, console)
        runs.insert(0, run)
        results.insert(0, result)
    console.print()
    console.print(comparison_table(results, "Same jobs, same budget"))
    found = report.report_of(
        results,
        runs,
        scale=setup.scale,
        nodes=len(setup.layout.nodes),
        emulated=setup.layout.emulated,
    )
    report.write(found, setup.out)
    console.print(
        f"\nPicture: {setup.out / report.PICTURE}\nTable:   {setup.out / report.TABLE}\n"
        f"Figures: {setup.out / report.RESULTS}\nOutputs: {setup.out / 'work'}",
        soft_wrap=True,
    )
    console.print(
        "The budget was kept at every instant."
        if found.budget_kept
        else "[red]The budget was exceeded: see the table.[/]",
    )
    if not found.budget_kept:
        sys.exit(1)


def _run_policy(
    setup: _Setup,
    policy: str,
    step: int,
    profiles: list[pb.Profile],
    console: Console,
) -> tuple[PolicyRun, PolicyResult]:
    setup.interruption.check()
    plan = SitePlan(
        nodes=setup.layout.nodes,
        budget_w=setup.layout.budget_w,
        policy=policy,
        coordinator_settings=_SETTINGS,
        omp_shim=setup.shim,
        restore_on_stop=True,
    )
    logs = setup.out / policy
    with Site(plan, logs) as site, CoordinatorClient(site.address) as client:
        nodes = runner.await_nodes(client, len(plan.nodes), setup.interruption)
        if not setup.layout.emulated:
            client.set_budget(layouts.budget_of(nodes, client.power().floor_uw), 0)
        if not profiles:
            _describe(setup, nodes, client.power().budget_uw / 1e6, console)
            setup.time_left.begin(_PROFILES)
            profiles += _profile(setup, client, console)
        else:
            for profile in profiles:
                client.put_profile(profile)
        setup.time_left.begin(policy)
        name, left = report.NAMES[policy], setup.time_left.text()
        console.print(
            f"[bold]{step}. {policy}[/] ({name}): {len(setup.mix)} jobs arrive ({left})",
            soft_wrap=True,
        )
        finished = _follow(setup, site, client, console)
        run = records.read_run(site.record, policy, finished.start_s, finished.end_s)
    result = records.result(run, finished.jobs, finished.power)
    console.print(
        f"   all done after {result.makespan_s:.1f} s; mean completion "
        f"{result.mean_completion_s:.1f} s, {result.resizes} resizes",
    )
    return run, result


def _describe(
    setup: _Setup,
    nodes: Sequence[pb.Node],
    budget_w: float,
    console: Console,
) -> None:
    first = nodes[0]
    how = {
        "cpu bandwidth": "the CPU bandwidth controller",
        "signals": "stop and continue signals (this account may not write cgroups)",
    }.get(first.throttle_mechanism, first.throttle_mechanism)
    kind = f"emulated power zones; caps slow jobs by {how}" if first.emulated else "RAPL zones"
    console.print(
        f"   {len(nodes)} nodes of {setup.layout.cores_per_node} cores on this machine, {kind}; "
        f"masks by {first.mask_mechanism}; budget {budget_w:.0f} W",
        soft_wrap=True,
    )


def _profile(setup: _Setup, client: CoordinatorClient, console: Console) -> list[pb.Profile]:
    """Measures every program at the corners of the plane of sizes and caps."""
    console.print("   measuring profiles at 2 sizes and 2 caps:")
    caps_w = PROBE_CAPS_W
    sizes = sorted({1, setup.layout.cores_per_node})
    if not setup.layout.emulated:
        zone = [z for z in client.list_nodes().nodes[0].zones if z.name.startswith("package")]
        floor_uw, power = sum(z.floor_uw for z in zone), client.power()
        # The cap of a single node is at most the budget above the floor.
        most_uw = floor_uw + power.budget_uw - power.floor_uw
        highest_uw = min(sum(z.cap_uw_max for z in zone), most_uw)
        caps_w = (floor_uw / 1e6, highest_uw / 1e6)
    probes = [Probe(size=n, cap_uw=uw_from_w(cap)) for n in sizes for cap in caps_w]
    cpu_s = PROBE_CPU_S if setup.layout.cpu_share < 0.5 else 1.0
    found = runner.measure_profiles(
        client,
        [entry for entry in setup.programs if entry.program.profiled],
        probes,
        cpu_s,
        lambda line: console.print(f"   {line}"),
        setup.interruption,
    )
    return [fitted.profile for fitted in found]


def _follow(
    setup: _Setup,
    site: Site,
    client: CoordinatorClient,
    console: Console,
) -> runner.Finished:
    during = _killer(setup, site, console) if setup.kill_at_s else None
    if not console.is_terminal:
        show_line = progress.lines(console, len(setup.mix), setup.time_left.text)
        return runner.run_mix(client, setup.mix, show_line, setup.interruption, during)
    screen = WatchScreen(site.address, f"{setup.time_left.text()}, Ctrl-C stops everything")
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(view: pb.ClusterView, ended: int) -> None:
            del ended
            screen.take(view)
            height = min(console.height, 26)
            live.update(screen.render(console.width, height, 0.0), refresh=True)

        return runner.run_mix(client, setup.mix, show, setup.interruption, during)


def _killer(setup: _Setup, site: Site, console: Console) -> Callable[[float], None]:
    done = False

    def during(now_s: float) -> None:
        nonlocal done
        if now_s >= setup.kill_at_s and not done:
            done = True
            console.print("   kill -9 of the coordinator")
            site.kill_coordinator()
            site.start_coordinator()
            console.print("   the coordinator is back")

    return during


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    main()
