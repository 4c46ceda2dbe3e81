"""`wattfold workload generate`: logs from models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE, expected_failures
from wattfold.simulator.choices import LublinKind

if TYPE_CHECKING:
    from wattfold.simulator.workloads.annotations import Annotations
    from wattfold.simulator.workloads.workload import Workload

_OPTIONS_OF = {
    "lublin": {"procs", "kind", "overestimate"},
    "poisson": {"procs", "load", "mean", "sigma"},
    "refitted": {"like"},
    "cirne": set(),
}


@click.command()
@click.argument("model", type=click.Choice(list(_OPTIONS_OF)))
@click.argument("target", metavar="OUT", type=LOG_FILE)
@click.option(
    "--jobs",
    type=click.IntRange(1, 10_000_000),
    default=1000,
    show_default=True,
    help="Number of jobs to generate.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed of the generator. The same seed always gives the same file.",
)
@click.option(
    "--procs",
    type=click.IntRange(1),
    metavar="N",
    help="Number of processors of the machine. Default: 128 for lublin, 64 for poisson.",
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in LublinKind]),
    help="Kind of jobs, for lublin. combined: one set of constants for all jobs. batch or "
    "interactive: only this kind. both: both kinds, merged. Default: combined.",
)
@click.option(
    "--overestimate",
    type=float,
    metavar="F",
    help="Overestimation by users, for lublin: the requested time is the run time multiplied by "
    "a random factor from 1 to F. Default: no requested times.",
)
@click.option(
    "--load",
    type=float,
    metavar="L",
    help="Load, for poisson: arrival rate times mean service time.",
)
@click.option(
    "--mean",
    type=float,
    metavar="SECONDS",
    help="Mean run time on all processors in seconds, for poisson. Default: 64.5.",
)
@click.option(
    "--sigma", type=float, help="Variance of the parallelism (Downey), for poisson. Default: 0.5."
)
@click.option("--like", type=LOG_FILE, metavar="LOG", help="Log to fit, for refitted.")
@click.option(
    "--annotations",
    "annotations_path",
    type=LOG_FILE,
    metavar="FILE",
    help="CSV file for the power and the malleability of every job.",
)
@session_command
def generate(
    session: Session,
    model: str,
    target: Path,
    jobs: int,
    seed: int,
    annotations_path: Path | None,
    **options: Any,
) -> None:
    """Generate jobs from MODEL and write them to the log OUT.

    The model lublin is by Lublin and Feitelson (2003). The model poisson has random arrivals and
    exponential lengths, as in Kale, Kumar and DeSouza (2002). The model refitted fits the
    distributions of Cirne and Berman (2001) to a log. The model cirne uses the same distributions
    for 1024 nodes, as in D'Amico et al. (2019); its sizes are whole nodes.
    """
    from wattfold.simulator.workloads.annotations import annotate, write_annotations
    from wattfold.simulator.workloads.swf_writer import write_swf

    given = {name: value for name, value in options.items() if value is not None}
    strange = sorted(set(given) - _OPTIONS_OF[model])
    if strange:
        raise BadRequestError(f"--{strange[0]} does not apply to the model {model}; omit it")
    with expected_failures():
        workload, annotations = _generated(model, jobs, seed, given)
        write_swf(workload, target)
        if annotations_path:
            if annotations is None:
                annotations = annotate(workload, seed)
            write_annotations(annotations, annotations_path)
    if session.json:
        session.print_json(
            {
                "file": str(target),
                "model": model,
                "jobs": len(workload),
                "seed": seed,
                "annotations": str(annotations_path) if annotations_path else None,
            }
        )
        return
    click.echo(f"{len(workload)} jobs written to {target}")


def _generated(
    model: str, jobs: int, seed: int, given: dict[str, Any]
) -> tuple[Workload, Annotations | None]:
    from wattfold.simulator.workloads.cirne import generate_cirne
    from wattfold.simulator.workloads.lublin import generate_lublin
    from wattfold.simulator.workloads.poisson import generate_poisson
    from wattfold.simulator.workloads.refitted import refit
    from wattfold.simulator.workloads.swf_reader import read_swf

    if model == "lublin":
        if "kind" in given:
            given["kind"] = LublinKind(given["kind"])
        return generate_lublin(jobs, seed, **given), None
    if model == "poisson":
        if "load" not in given:
            raise BadRequestError("the model poisson needs --load L")
        if "mean" in given:
            given["mean_s"] = given.pop("mean")
        return generate_poisson(jobs, seed, **given)
    if model == "cirne":
        return generate_cirne(jobs, seed), None
    if "like" not in given:
        raise BadRequestError("the model refitted needs --like LOG")
    return refit(read_swf(given["like"]).workload).generate(jobs, seed), None
