"""The demonstration beside Slurm: the same jobs with one cap for all nodes, and with Wattfold.

A real slurmctld and four slurmd on the loopback interface run the jobs, submitted by sbatch. In the
first run, each node has the cap that the budget allows if all nodes draw it at once, as a site
without Wattfold sets it. In the second run, Wattfold in guest mode moves the watts of idle nodes to
busy nodes. `scripts/demo --slurm` calls this.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import layout as layouts
from wattfold.coordinator.demo import progress, records, runner
from wattfold.coordinator.demo.beside_slurm.cluster import (
    ClusterError,
    SlurmCluster,
    await_true,
    missing,
    slurm_cluster,
)
from wattfold.coordinator.demo.mix import Arrival
from wattfold.coordinator.demo.observer import observer_of
from wattfold.coordinator.demo.site import DemoSite, NodePlan, SiteError, SitePlan
from wattfold.coordinator.demo.two_runs import interruptible, output_options, warn_if_disturbed
from wattfold.coordinator.figures.run_record import PolicyResult, PolicyRun
from wattfold.v1 import coordinator_pb2 as pb

ALONE, BESIDE = "Slurm, one cap", "Slurm and Wattfold"
JOBS: Sequence[tuple[str, float, int, float]] = (
    ("jacobi", 4.0, 2, 0.0),
    ("compute", 4.0, 2, 0.5),
    ("md", 3.0, 1, 1.0),
    ("compute", 5.0, 2, 9.0),
    ("md", 4.0, 2, 18.0),
    ("jacobi", 3.0, 2, 19.0),
    ("compute", 3.0, 1, 20.0),
    ("md", 5.0, 2, 32.0),
)
"""Name, seconds of CPU time, cores and arrival of each job. At times few nodes are busy."""
KNOWN_S = 30.0
RESULTS, TABLE, PICTURE = "slurm.json", "slurm.md", "slurm.png"
_SETTINGS = """solver_deadline_s = 20.0
lease_s = 6.0
telemetry_interval_s = 0.25
[slurm]
conf = "{conf}"
poll_s = 0.25
comments_s = 5
"""
_BURN = """
import os, time
for _ in range({cores} - 1):
    if not os.fork():
        break
while time.process_time() < {cpu_s}:
    pass
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRun:
    """A run: its record and its results."""

    run: PolicyRun
    result: PolicyResult


class Submitter:
    """Submits jobs with sbatch, and waits until the coordinator knows them."""

    def __init__(self, cluster: SlurmCluster, client: CoordinatorClient) -> None:
        self._cluster = cluster
        self._client = client

    def submit(self, spec: pb.JobSpec) -> str:
        """Submit a job, and return its ID in the coordinator. Raises ClusterError."""
        command = " ".join(map(_quoted, spec.argv))
        words = ("-J", spec.name, "-c", str(spec.size_max), "-o", "/dev/null", "--wattfold=mask")
        number = self._cluster.call("sbatch", "--parsable", *words, "--wrap", f"exec {command}")
        job_id = f"slurm-{number.strip()}"

        def known() -> bool:
            return any(j.job_id == job_id for j in self._client.list_jobs(include_ended=True).jobs)

        await_true(f"the coordinator knows job {job_id}", known, KNOWN_S)
        return job_id


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def uniform_w(budget_w: float) -> float:
    """Return the cap of a package if all nodes draw their caps at once, in watts."""
    return budget_w / layouts.NODES - layouts.BASE_W - layouts.DRAM_W


def jobs(scale: float) -> list[Arrival]:
    """Return the jobs. Each core computes for the CPU time, and the job ends with its slowest."""
    found = []
    for number, (name, cpu_s, cores, at_s) in enumerate(JOBS, 1):
        spec = pb.JobSpec(
            name=f"{name}{number}",
            argv=[sys.executable, "-c", _BURN.format(cores=cores, cpu_s=cpu_s * scale)],
            size_min=cores,
            size_max=cores,
        )
        found.append(Arrival(at_s=at_s * scale, spec=spec))
    return found


def run(
    name: str,
    mix: Sequence[Arrival],
    out: Path,
    shim: Path,
    interruption: runner.Interruption,
    console: Console,
) -> SlurmRun:
    """Run the jobs once. Raises ClusterError, SiteError, RunError and CliError."""
    logs = out / name.replace(" ", "-").replace(",", "")
    layout = layouts.emulated()
    word = f"p{os.getpid()}"
    with slurm_cluster(layouts.NODES, layout.cores_per_node, word) as cluster:
        conf = cluster.root / "slurm.conf"
        plan = SitePlan(
            nodes=tuple(_nodes(name, layout, cluster.nodes)),
            budget_w=layout.budget_w,
            policy="equipartition",
            coordinator_settings=_SETTINGS.format(conf=conf),
            omp_shim=shim,
        )
        with DemoSite(plan, logs) as site, CoordinatorClient(site.address) as client:
            for node in cluster.nodes:
                (cluster.root / node).symlink_to(site.folder / node)
            plugin = shim.with_name("spank_wattfold.so")
            cluster.plugstack(f"optional {plugin} agent={cluster.root}/%n/adopt.sock\n")
            runner.await_nodes(client, len(plan.nodes), interruption)
            tell = progress.lines(console, len(mix), lambda: "")
            submit = Submitter(cluster, client).submit
            nodes = client.list_nodes().nodes
            with observer_of(site, nodes, uw_from_w(layout.budget_w)) as observer:
                finished = runner.run_mix(client, mix, tell, interruption, submit=submit)
            cluster.cancel_all()
        start_s, end_s = finished.start_s, finished.end_s
        record = records.read_run(site.record, name, start_s, end_s, observer.limits())
    # Steps of Slurm are no descendants of this process, so their time counts as foreign so far.
    jobs_s = sum(job.cpu_ns for job in finished.jobs) / NS_PER_S
    seen, cores = observer.observation(), len(os.sched_getaffinity(0))
    foreign = max(seen.foreign_share - jobs_s / ((end_s - start_s) * cores), 0.0)
    result = records.result(
        record, finished.jobs, finished.power, replace(seen, foreign_share=foreign)
    )
    console.print(f"   all done after {result.makespan_s:.1f} s")
    return SlurmRun(run=record, result=result)


def _nodes(name: str, layout: layouts.Layout, names: Sequence[str]) -> list[NodePlan]:
    """Return the nodes with Slurm's names; in the first run with one cap that never changes."""
    found = []
    for node, node_id in zip(layout.nodes, names, strict=True):
        settings = "adopt_slurm = true\n" + node.settings
        if name == ALONE:
            cap_w = uniform_w(layout.budget_w)
            for key, before_w in (("\nfloor_w", layouts.FLOOR_W), ("max_w", layouts.PACKAGE_W)):
                settings = settings.replace(f"{key} = {before_w}", f"{key} = {cap_w}", 1)
        found.append(replace(node, node_id=node_id, settings=settings))
    return found


def write(runs: Sequence[SlurmRun], out: Path) -> str:
    """Write figures, table and picture. Return the table."""
    document = {"runs": [asdict(one) for one in runs]}
    (out / RESULTS).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = table([one.result for one in runs])
    (out / TABLE).write_text(text, encoding="utf-8")
    # matplotlib takes a second to load: not before it is needed.
    from wattfold.coordinator.figures.power_timeline import save_power_timeline

    save_power_timeline(out / PICTURE, [one.run for one in runs], title([r.result for r in runs]))
    return text


def title(results: Sequence[PolicyResult]) -> str:
    """Return the title of the picture."""
    alone, beside = results
    return (
        f"{beside.jobs} jobs of Slurm under {beside.budget_w:.0f} W: mean completion "
        f"{beside.mean_completion_s:.1f} s with Wattfold, {alone.mean_completion_s:.1f} s with one "
        "cap for all nodes"
    )


def table(results: Sequence[PolicyResult]) -> str:
    """Return the results as a table in Markdown."""
    rows = [
        ("mean completion time, s", [f"{one.mean_completion_s:.1f}" for one in results]),
        ("makespan, s", [f"{one.makespan_s:.1f}" for one in results]),
        ("energy, kJ", [f"{one.energy_j / 1e3:.2f}" for one in results]),
        ("peak committed power, W", [f"{one.committed_w_peak:.1f}" for one in results]),
        ("peak of the limits in files, W", [f"{r.observed.limits_w_peak:.1f}" for r in results]),
        ("samples above the budget", [str(one.observed.samples_above) for one in results]),
        ("CPU time of other processes", [f"{r.observed.foreign_share:.1%}" for r in results]),
    ]
    names = [one.policy for one in results]
    lines = [f"| | {' | '.join(names)} |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {' | '.join(cells)} |" for what, cells in rows), ""])


def kept(results: Sequence[PolicyResult]) -> bool:
    """Whether committed power and limits were within the budget at each sample."""
    return all(
        one.observed.samples
        and not one.observed.samples_above
        and one.committed_w_peak <= one.budget_w + 1e-6
        for one in results
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--shim",
    type=click.Path(path_type=Path),
    default=Path("build/shims/libwattfold_omp.so"),
    hidden=True,
    help="Shared library of the OpenMP shim, with Slurm's plugin next to it.",
)
@output_options
def main(shim: Path, out: Path, scale: float) -> None:
    """Run the same jobs of a real Slurm with one cap for all nodes, and with Wattfold.

    Needs root, Slurm, MUNGE and control groups of version 1; nothing in /etc is changed. Writes
    slurm.json, slurm.md and slurm.png.
    """
    console = Console(highlight=False)
    folder = out.resolve() / "slurm"
    with interruptible(
        console, ClusterError, SiteError, CliError, layouts.LayoutError, runner.RunError, OSError
    ) as interruption:
        if why := missing():
            raise ClusterError(why)
        if not shim.with_name("spank_wattfold.so").exists():
            raise ClusterError("needs the plugin of Slurm; install libslurm-dev, then try again")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        found = []
        budget_w = layouts.emulated().budget_w
        for step, name in enumerate((ALONE, BESIDE), 1):
            interruption.check()
            console.print(f"[bold]{step}. {name}[/]: {len(JOBS)} jobs, budget {budget_w:.0f} W")
            one = run(name, jobs(scale), folder, shim.resolve(), interruption, console)
            found.append(one)
    console.print(f"\n{write(found, out.resolve())}\nPicture: {out.resolve() / PICTURE}")
    warn_if_disturbed(console, [one.result for one in found])
    if not kept([one.result for one in found]):
        console.print("[red]The budget was exceeded: see the table.[/]")
        sys.exit(1)


if __name__ == "__main__":
    main()
