"""The runs of the demonstration, one policy after the other, and their report.

A run that other processes of the machine disturbed is repeated, or labelled in the report.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.cli.profiles.probing import Probe
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.site.watch_screen import WatchScreen
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import mix, programs, progress, records, report, runner
from wattfold.coordinator.demo.dashboard import dashboard_of
from wattfold.coordinator.demo.layout import Layout
from wattfold.coordinator.demo.observer import (
    FOREIGN_SHARE_MAX,
    ForeignTime,
    disturbance,
    observer_of,
)
from wattfold.coordinator.demo.site import DemoSite, SitePlan
from wattfold.coordinator.demo.time_left import TimeLeft
from wattfold.coordinator.figures.comparison_table import comparison_table
from wattfold.coordinator.figures.run_record import PolicyResult, PolicyRun
from wattfold.v1 import coordinator_pb2 as pb

During = Callable[[float], None]
"""Called during a run, with the seconds since its start."""
POLICIES = ("parm-wse", "easy-uniform", "fifo-easy")
"""Order of the runs; the first one measures the profiles. Table and picture reverse the order."""
PROFILES = "profiles"
_PROBE_CPU_S = 0.12
_PROBE_CAPS_W = (15.5, 44.75)
_SETTINGS = """solver_deadline_s = 2.0
lease_s = 8.0
telemetry_interval_s = 0.25
[parm]
resize_interval_s = 3.0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Settings of all runs. ``repeats``: number of runs that may be repeated."""

    layout: Layout
    programs: tuple[programs.Calibrated, ...]
    mix: tuple[mix.Arrival, ...]
    out: Path
    shim: Path
    kill_at_s: float
    scale: float
    repeats: int
    time_left: TimeLeft
    interruption: runner.Interruption
    web: bool = False
    """Whether to serve the dashboard during the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Profiles:
    """Profiles of the programs, and the share of foreign CPU time while they were measured."""

    measured: tuple[pb.Profile, ...]
    foreign_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """A run under one policy, with the profiles that it used.

    ``foreign_share`` is the higher share of the run and of profiles that were measured for it.
    """

    run: PolicyRun
    result: PolicyResult
    profiles: _Profiles
    foreign_share: float


def compare(setup: Setup, console: Console) -> None:
    """Runs the jobs under each policy and writes the report. Exits with 1 above the budget."""
    outcomes: list[_Outcome] = []
    repeats = setup.repeats
    for step, policy in enumerate(POLICIES, 2):
        known = outcomes[-1].profiles if outcomes else None
        outcome = _run_policy(setup, policy, step, known, console)
        if outcome.foreign_share > FOREIGN_SHARE_MAX and repeats:
            repeats -= 1
            console.print(f"   [yellow]{disturbance(outcome.foreign_share)}; running it again[/]")
            again = _run_policy(setup, policy, step, known, console)
            outcome = min(outcome, again, key=lambda run: run.foreign_share)
        if outcome.foreign_share > FOREIGN_SHARE_MAX:
            console.print(f"   [yellow]{disturbance(outcome.foreign_share)}[/]")
        outcomes.append(outcome)
    _report(setup, outcomes[::-1], console)


def _report(setup: Setup, outcomes: Sequence[_Outcome], console: Console) -> None:
    results = [outcome.result for outcome in outcomes]
    found = report.report_of(
        results,
        [outcome.run for outcome in outcomes],
        scale=setup.scale,
        nodes=len(setup.layout.nodes),
        emulated=setup.layout.emulated,
        profiles_foreign_share=outcomes[-1].profiles.foreign_share,
    )
    console.print()
    console.print(comparison_table(results, "Same jobs, same budget", ratios=not found.disturbed))
    report.write(found, setup.out)
    console.print(
        f"\nPicture: {setup.out / report.PICTURE}\nTable:   {setup.out / report.TABLE}\n"
        f"Figures: {setup.out / report.RESULTS}\nOutputs: {setup.out / 'work'}",
        soft_wrap=True,
    )
    if found.disturbed:
        console.print(f"[yellow]{report.warning(found)}[/]", soft_wrap=True)
    kept = report.budget_sentence(found)
    console.print(kept if found.budget_kept else f"[red]{kept}[/]", soft_wrap=True)
    if not found.budget_kept:
        sys.exit(1)


def _run_policy(
    setup: Setup, policy: str, step: int, known: _Profiles | None, console: Console
) -> _Outcome:
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
    with DemoSite(plan, logs) as site, CoordinatorClient(site.address) as client:
        nodes = runner.await_nodes(client, len(plan.nodes), setup.interruption)
        if not setup.layout.emulated:
            client.set_budget(layouts.budget_of(nodes, client.power().floor_uw), 0)
        budget_uw = client.power().budget_uw
        if known is None:
            _describe(setup, nodes, budget_uw / 1e6, console)
            setup.time_left.begin(PROFILES)
        profiles = known or _profile(setup, client, console)
        for profile in profiles.measured:
            client.put_profile(profile)
        setup.time_left.begin(policy)
        name, left = report.NAMES[policy], setup.time_left.text()
        console.print(
            f"[bold]{step}. {policy}[/] ({name}): {len(setup.mix)} jobs arrive ({left})",
            soft_wrap=True,
        )
        with (
            observer_of(site, nodes, budget_uw) as observer,
            _dashboard(setup, site, policy, console) as watched,
        ):
            finished = _follow(setup, site, client, console, watched)
        run = records.read_run(
            site.record, policy, finished.start_s, finished.end_s, observer.limits()
        )
    result = records.result(run, finished.jobs, finished.power, observer.observation())
    console.print(
        f"   all done after {result.makespan_s:.1f} s; mean completion "
        f"{result.mean_completion_s:.1f} s, {result.resizes} resizes",
    )
    share = result.observed.foreign_share
    if known is None:
        share = max(share, profiles.foreign_share)
    return _Outcome(run=run, result=result, profiles=profiles, foreign_share=share)


def _describe(
    setup: Setup,
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


def _profile(setup: Setup, client: CoordinatorClient, console: Console) -> _Profiles:
    """Measures every program at the corners of the plane of sizes and caps."""
    console.print("   measuring profiles at 2 sizes and 2 caps:")
    caps_w = _PROBE_CAPS_W
    sizes = sorted({1, setup.layout.cores_per_node})
    if not setup.layout.emulated:
        zone = [z for z in client.list_nodes().nodes[0].zones if z.name.startswith("package")]
        floor_uw, power = sum(z.floor_uw for z in zone), client.power()
        # The cap of a single node is at most the budget above the floor.
        most_uw = floor_uw + power.budget_uw - power.floor_uw
        highest_uw = min(sum(z.cap_uw_max for z in zone), most_uw)
        caps_w = (floor_uw / 1e6, highest_uw / 1e6)
    probes = [Probe(size=n, cap_uw=uw_from_w(cap)) for n in sizes for cap in caps_w]
    cpu_s = _PROBE_CPU_S if setup.layout.cpu_share < 0.5 else 1.0
    foreign = ForeignTime()
    found = runner.measure_profiles(
        client,
        [entry for entry in setup.programs if entry.program.profiled],
        probes,
        cpu_s,
        lambda line: console.print(f"   {line}"),
        setup.interruption,
    )
    return _Profiles(
        measured=tuple(fitted.profile for fitted in found), foreign_share=foreign.share()
    )


def _follow(
    setup: Setup,
    site: DemoSite,
    client: CoordinatorClient,
    console: Console,
    watched: During | None,
) -> runner.Finished:
    calls = [_killer(setup, site, console)] if setup.kill_at_s else []
    calls += [watched] if watched is not None else []

    def during(now_s: float) -> None:
        for call in calls:
            call(now_s)

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


def _dashboard(
    setup: Setup, site: DemoSite, policy: str, console: Console
) -> AbstractContextManager[During | None]:
    if not setup.web:
        return nullcontext()

    def notice(line: str) -> None:
        console.print(f"   {line}", soft_wrap=True)

    return dashboard_of(site.address, setup.out / f"web-{policy}.png", setup.scale, notice)


def _killer(setup: Setup, site: DemoSite, console: Console) -> During:
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
