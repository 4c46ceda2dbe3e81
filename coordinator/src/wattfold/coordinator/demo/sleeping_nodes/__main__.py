"""The demonstration of sleeping nodes: the same jobs with all nodes awake, and with sleep.

Four emulated nodes share a budget that feeds one busy node and three idle nodes, or two busy nodes
and two that sleep. Programs of the site switch the nodes: a node that is switched off loses its
agent, and gets it back some seconds after it is switched on. `scripts/demo --sleep` calls this.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import progress, records, runner
from wattfold.coordinator.demo.mix import Arrival
from wattfold.coordinator.demo.observer import ForeignTime
from wattfold.coordinator.demo.site import DemoSite, SiteError, SitePlan
from wattfold.coordinator.demo.two_runs import interruptible, output_options, warn_if_disturbed
from wattfold.coordinator.figures.run_record import (
    LimitCurves,
    LimitPoint,
    Observation,
    PolicyResult,
    PolicyRun,
)
from wattfold.v1 import coordinator_pb2 as pb

AWAKE, ASLEEP = "all nodes awake", "nodes that sleep"
BUDGET_W, ASLEEP_W, BOOT_W, BOOT_S, BOOT_LIMIT_S = 136.0, 3.0, 60.0, 4.0, 30
"""A busy node draws up to 60 W, an idle one 24 W."""
ARRIVALS_S = (0.0, 1.0, 25.0, 26.0, 50.0, 51.0, 100.0, 101.0)
"""Arrivals of the jobs: pairs that take longer one after another than at once, and a pause."""
CPU_S = 4.0
RESULTS, TABLE, PICTURE = "sleep.json", "sleep.md", "sleep.png"
_SETTINGS = "solver_deadline_s = 20.0\nlease_s = 6.0\ntelemetry_interval_s = 0.25\n"
_PROGRAM = """#!/bin/sh
# usage: switch FOLDER off|on|status SECONDS NODE
if [ "$2" = status ]; then exec cat "$1/$4.power"; fi
echo "$2" > "$1/$4.part.$$" && mv "$1/$4.part.$$" "$1/$4.order"
"""
_POWER = """[power]
suspend = "{program} off"
resume = "{program} on"
status = "{program} status"
account = "{account}"
asleep_w = {asleep}
boot_w = {boot}
boot_s = {limit}
awake_min_s = 4
decide = true
"""
_BURN = "import time\nwhile time.process_time() < {cpu_s}: pass\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepRun:
    """A run: its record, its results, and its boots."""

    run: PolicyRun
    result: PolicyResult
    boots: int


class SwitchedSite(DemoSite):
    """A site whose nodes are switched by the programs of the site. Call `look` often."""

    def __init__(self, plan: SitePlan, logs: Path, orders: Path) -> None:
        super().__init__(plan, logs)
        self._orders = orders
        self._up_at_s: dict[int, float] = {}
        for node in plan.nodes:
            self._tell(node.node_id, "on")

    def look(self, now_s: float) -> None:
        """Carry out the orders of the programs, and start the agents of nodes that have booted."""
        for index, node in enumerate(self.plan.nodes):
            order = self._orders / f"{node.node_id}.order"
            if order.exists():
                word = order.read_text(encoding="utf-8").strip()
                order.unlink()
                if word == "off":
                    self._switch_off(index)
                else:
                    self._up_at_s.setdefault(index, now_s + BOOT_S)
                    self._tell(node.node_id, "on")
            if now_s >= self._up_at_s.get(index, float("inf")):
                del self._up_at_s[index]
                self.start_agent(index)

    def _switch_off(self, index: int) -> None:
        self._up_at_s.pop(index, None)
        self.stop_agent(index)
        self._tell(self.plan.nodes[index].node_id, "off")

    def _tell(self, node: str, word: str) -> None:
        (self._orders / f"{node}.told").write_text(word + "\n", encoding="utf-8")
        (self._orders / f"{node}.told").rename(self._orders / f"{node}.power")


class NodeCharges:
    """The charge of each node over time: limits, the power of a boot, or the power asleep."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self._nodes = nodes
        self._seen: list[tuple[float, tuple[float, ...]]] = []

    def take(self, view: pb.ClusterView) -> None:
        """Add a view of the site."""
        charges = {node.node_id: node.committed_uw / 1e6 for node in view.nodes}
        self._seen.append((view.time_s, tuple(charges.get(node, 0.0) for node in self._nodes)))

    def since(self, start_s: float) -> LimitCurves:
        """Return the curves with times from this one (Unix seconds)."""
        points = (LimitPoint(time_s=max(at_s - start_s, 0), node_w=w) for at_s, w in self._seen)
        return LimitCurves(nodes=self._nodes, points=tuple(points))


def jobs(layout: layouts.Layout, outputs: Path, scale: float) -> list[Arrival]:
    """Return jobs on whole nodes that compute on one core."""
    burn = _BURN.format(cpu_s=CPU_S * scale)
    found = []
    for number, at_s in enumerate(ARRIVALS_S, 1):
        spec = pb.JobSpec(
            name=f"job{number}",
            app="burn",
            argv=[sys.executable, "-c", burn],
            cwd=str(outputs),
            stdout_path=str(outputs / f"job{number}.out"),
            stderr_path=str(outputs / f"job{number}.err"),
            size_min=1,
            size_max=1,
            unit=pb.SIZE_UNIT_NODES,
            time_ns=round(CPU_S * scale / layout.cpu_share * 1e9),
        )
        found.append(Arrival(at_s=at_s, spec=spec))
    return found


def run(
    name: str,
    mix: Sequence[Arrival],
    out: Path,
    interruption: runner.Interruption,
    console: Console,
) -> SleepRun:
    """Run the jobs once. Raises SiteError, RunError and CliError."""
    logs = out / name.replace(" ", "-")
    orders = logs / "orders"
    orders.mkdir(parents=True)
    site_layout = layouts.emulated()
    plan = SitePlan(
        nodes=site_layout.nodes,
        budget_w=BUDGET_W,
        policy="fifo-easy",
        coordinator_settings=_SETTINGS + (_power(orders) if name == ASLEEP else ""),
    )
    foreign = ForeignTime()
    site = SwitchedSite(plan, logs, orders)
    with site, CoordinatorClient(site.address) as client:
        if name == AWAKE:
            runner.await_nodes(client, len(plan.nodes), interruption)
        tell = progress.lines(console, len(mix), lambda: "")
        charges = NodeCharges(tuple(node.node_id for node in plan.nodes))

        def show(view: pb.ClusterView, ended: int) -> None:
            charges.take(view)
            tell(view, ended)

        finished = runner.run_mix(client, mix, show, interruption, site.look)
        boots = sum(node.boots for node in client.list_nodes().nodes)
        curves = charges.since(finished.start_s)
        record = records.read_run(site.record, name, finished.start_s, finished.end_s, curves)
    above = sum(
        point.committed_w > budget.budget_w
        for point, budget in zip(record.power, record.budget, strict=True)
    )
    seen = Observation(
        foreign_share=foreign.share(),
        samples=len(record.power),
        samples_above=above,
        limits_w_peak=max(point.committed_w for point in record.power),
    )
    result = records.result(record, finished.jobs, finished.power, seen)
    console.print(f"   all done after {result.makespan_s:.1f} s, {boots} boots")
    return SleepRun(run=record, result=result, boots=boots)


def _power(orders: Path) -> str:
    program = orders / "switch"
    program.write_text(_PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    return _POWER.format(
        program=f"{program} {orders}",
        account=pwd.getpwuid(os.geteuid()).pw_name,
        asleep=ASLEEP_W,
        boot=BOOT_W,
        limit=BOOT_LIMIT_S,
    )


def write(runs: Sequence[SleepRun], out: Path) -> str:
    """Write figures, table and picture. Return the table."""
    document = {"budget_w": BUDGET_W, "runs": [asdict(one) for one in runs]}
    (out / RESULTS).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = table(runs)
    (out / TABLE).write_text(text, encoding="utf-8")
    # matplotlib takes a second to load: not before it is needed.
    from wattfold.coordinator.figures.power_timeline import save_power_timeline

    save_power_timeline(out / PICTURE, [one.run for one in runs], title(runs))
    return text


def title(runs: Sequence[SleepRun]) -> str:
    """Return the title of the picture."""
    awake, asleep = (one.result for one in runs)
    return (
        f"{asleep.jobs} jobs under {BUDGET_W:.0f} W: done after {asleep.makespan_s:.0f} s with "
        f"nodes that sleep, after {awake.makespan_s:.0f} s with all nodes awake"
    )


def table(runs: Sequence[SleepRun]) -> str:
    """Return the results as a table in Markdown."""
    results = [one.result for one in runs]
    rows = [
        ("mean completion time, s", [f"{one.mean_completion_s:.1f}" for one in results]),
        ("makespan, s", [f"{one.makespan_s:.1f}" for one in results]),
        ("energy, kJ", [f"{one.energy_j / 1e3:.2f}" for one in results]),
        ("peak committed power, W", [f"{one.committed_w_peak:.1f}" for one in results]),
        ("boots", [str(one.boots) for one in runs]),
        ("CPU time of other processes, %", [f"{r.observed.foreign_share:.1%}" for r in results]),
    ]
    names = [one.policy for one in results]
    lines = [f"| | {' | '.join(names)} |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {' | '.join(cells)} |" for what, cells in rows), ""])


def kept(runs: Sequence[SleepRun]) -> bool:
    """Whether committed power was within the budget at each sample."""
    return all(
        one.result.observed.samples
        and not one.result.observed.samples_above
        and one.result.committed_w_peak <= BUDGET_W
        for one in runs
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@output_options
def main(out: Path, scale: float) -> None:
    """Run the same jobs with all nodes awake and with nodes that sleep, under one budget.

    Writes sleep.json, sleep.md and sleep.png.
    """
    console = Console(highlight=False)
    folder = out.resolve() / "sleep"
    with interruptible(
        console, SiteError, CliError, layouts.LayoutError, runner.RunError, OSError
    ) as interruption:
        shutil.rmtree(folder, ignore_errors=True)
        outputs = folder / "work"
        outputs.mkdir(parents=True)
        mix = jobs(layouts.emulated(), outputs, scale)
        found = []
        for step, name in enumerate((AWAKE, ASLEEP), 1):
            interruption.check()
            console.print(f"[bold]{step}. {name}[/]: {len(mix)} jobs, budget {BUDGET_W:.0f} W")
            found.append(run(name, mix, folder, interruption, console))
    console.print(f"\n{write(found, out.resolve())}\nPicture: {out.resolve() / PICTURE}")
    warn_if_disturbed(console, [one.result for one in found])
    if not kept(found):
        console.print("[red]Committed power exceeded the budget: see the table.[/]")
        sys.exit(1)


if __name__ == "__main__":
    main()
