"""`wattfold workload convert`: treat invalid rows of a log, select jobs, change scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.workloads.workload_options import (
    INTEGERS,
    LOG_FILE,
    RANGE,
    expected_failures,
    odd_row_options,
    policy_of,
    write_odd_rows,
)

if TYPE_CHECKING:
    from wattfold.simulator.workloads.odd_rows import FaultKind, Treatment
    from wattfold.simulator.workloads.workload import Workload

F = TypeVar("F", bound=Callable[..., Any])


def _choice_options(command: F) -> F:
    """Add the options that choose jobs to a command."""
    for option in (
        click.option(
            "--statuses",
            type=INTEGERS,
            metavar="N,N,...",
            help="Statuses of the jobs to select (field 11).",
        ),
        click.option(
            "--users",
            type=INTEGERS,
            metavar="N,N,...",
            help="Users of the jobs to select, by number.",
        ),
        click.option(
            "--queues",
            type=INTEGERS,
            metavar="N,N,...",
            help="Queues of the jobs to select, by number.",
        ),
        click.option(
            "--partitions",
            type=INTEGERS,
            metavar="N,N,...",
            help="Partitions of the jobs to select, by number.",
        ),
        click.option(
            "--sizes", type=RANGE, metavar="MIN-MAX", help="Range of sizes of the jobs to select."
        ),
        click.option(
            "--ids", type=RANGE, metavar="MIN-MAX", help="Range of IDs of the jobs to select."
        ),
        click.option(
            "--from-id", type=click.IntRange(0), metavar="ID", help="ID of the first job to select."
        ),
        click.option(
            "--from-time",
            type=float,
            metavar="SECONDS",
            help="Earliest submission time of the jobs to select, in seconds of the log.",
        ),
        click.option(
            "--to-time",
            type=float,
            metavar="SECONDS",
            help="End of the submission times to select, in seconds of the log. This time is "
            "excluded.",
        ),
        click.option(
            "--first",
            type=click.IntRange(0),
            default=0,
            metavar="INDEX",
            help="Number of selected jobs to skip, after all other options.",
        ),
        click.option(
            "--count",
            type=click.IntRange(0),
            metavar="N",
            help="Maximum number of jobs after --first.",
        ),
    ):
        command = option(command)
    return command


def _scale_options(command: F) -> F:
    """Add the options that change the chosen jobs to a command."""
    for option in (
        click.option(
            "--from-zero",
            is_flag=True,
            help="Shift the first submission to time zero, after all other changes.",
        ),
        click.option(
            "--exact", is_flag=True, help="Set the requested time of every job to its run time."
        ),
        click.option(
            "--max-size",
            type=click.IntRange(1),
            metavar="N",
            help="Maximum size. Larger jobs are cut to it; their run time stays the same.",
        ),
        click.option(
            "--gamma", type=float, metavar="G", help="Factor for the times between arrivals."
        ),
        click.option(
            "--procs-per-node",
            type=click.IntRange(1),
            metavar="N",
            help="Number of processors per node. Sizes then count whole nodes. Applied before "
            "all other changes.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("source", metavar="IN", type=LOG_FILE)
@click.argument("target", metavar="OUT", type=LOG_FILE)
@_choice_options
@_scale_options
@click.option(
    "--annotations",
    "annotations_path",
    type=LOG_FILE,
    metavar="FILE",
    help="CSV file for the power and the malleability of every job, drawn as in the evaluation "
    "of PARM.",
)
@click.option(
    "--requests",
    "requests_path",
    type=LOG_FILE,
    metavar="FILE",
    help="CSV file for the requests of each unit of the jobs, if the log has them.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed for the annotations."
)
@odd_row_options
@session_command
def convert(
    session: Session,
    source: Path,
    target: Path,
    annotations_path: Path | None,
    requests_path: Path | None,
    seed: int,
    on_odd: str,
    exceptions: Sequence[tuple[FaultKind, Treatment]],
    odd_rows_path: Path | None,
    **options: Any,
) -> None:
    """Convert the log IN to OUT.

    The options treat invalid rows, select jobs and change scales. IN is in the Standard Workload
    Format or a PA-HPC-SIM trace of jobs of units, plain or gzip. OUT is in the Standard Workload
    Format, compressed if its name ends in .gz. OUT keeps the header of IN, with a note of the
    options.
    """
    from wattfold.coordinator.cli.workloads.odd_row_tables import odd_row_counts, odd_row_table
    from wattfold.simulator.workloads.annotations import annotate, write_annotations
    from wattfold.simulator.workloads.job_requests import write_requests
    from wattfold.simulator.workloads.log_reader import read_log
    from wattfold.simulator.workloads.swf_writer import write_swf

    with expected_failures():
        read = read_log(source, policy_of(on_odd, exceptions))
        jobs = _scaled(_chosen(read.workload, options), options)
        jobs = jobs.with_header(jobs.header.with_note(_note(on_odd, exceptions, options)))
        write_swf(jobs, target)
        if annotations_path:
            write_annotations(annotate(jobs, seed), annotations_path)
        if requests_path:
            kept = {job: read.requests[job] for job in jobs.job_ids.tolist() if read.requests}
            write_requests(kept, requests_path)
        if odd_rows_path:
            write_odd_rows(read.report, odd_rows_path)
    if session.json:
        session.print_json(
            {
                "file": str(target),
                "rows": read.report.data_lines,
                "jobs": len(jobs),
                "annotations": str(annotations_path) if annotations_path else None,
                "requests": str(requests_path) if requests_path else None,
                "odd_rows": odd_row_counts(read.report),
            }
        )
        return
    if read.report.rows:
        session.print(odd_row_table(read.report))
    click.echo(f"{len(jobs)} jobs of {read.report.data_lines} rows written to {target}")


def _chosen(jobs: Workload, options: dict[str, Any]) -> Workload:
    from wattfold.simulator.workloads import selection

    if options["procs_per_node"]:
        jobs = selection.in_nodes(jobs, options["procs_per_node"])
    if options["from_time"] is not None or options["to_time"] is not None:
        start = -float("inf") if options["from_time"] is None else options["from_time"]
        end = float("inf") if options["to_time"] is None else options["to_time"]
        jobs = selection.submitted_between(jobs, start, end)
    if options["ids"]:
        jobs = selection.with_ids(jobs, *options["ids"])
    if options["from_id"] is not None:
        jobs = selection.from_id(jobs, options["from_id"])
    if options["sizes"]:
        jobs = selection.with_sizes(jobs, *options["sizes"])
    for option, column in (
        ("partitions", "partitions"),
        ("queues", "queues"),
        ("users", "users"),
        ("statuses", "status"),
    ):
        if options[option] is not None:
            jobs = selection.with_values(jobs, column, options[option])
    return selection.window(jobs, options["first"], options["count"])


def _scaled(jobs: Workload, options: dict[str, Any]) -> Workload:
    from wattfold.simulator.workloads import selection

    if options["max_size"]:
        jobs = selection.cut_sizes(jobs, options["max_size"])
    if options["gamma"] is not None:
        jobs = selection.scaled_arrivals(jobs, options["gamma"])
    if options["exact"]:
        jobs = selection.exact_estimates(jobs)
    return selection.from_zero(jobs) if options["from_zero"] else jobs


def _note(
    on_odd: str, exceptions: Sequence[tuple[FaultKind, Treatment]], options: dict[str, Any]
) -> str:
    """Return the given options, so that the file states its origin."""
    words = [f"on-odd {on_odd}"]
    words += [f"rule {rule.value}={treatment.value}" for rule, treatment in exceptions]
    for name, value in sorted(options.items()):
        if value is None or value is False or (name == "first" and value == 0):
            continue
        shown = ",".join(str(part) for part in value) if isinstance(value, tuple) else value
        words.append(f"{name.replace('_', '-')}{'' if value is True else f' {shown}'}")
    return f"converted by wattfold: {'; '.join(words)}"
