"""`wattfold workload collect`: the jobs that have run here, as a log for simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE, expected_failures
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.simulator.workloads.workload import Workload

MOST = 1_000_000
STATUS = {
    pb.JOB_STATE_COMPLETED: 1,
    pb.JOB_STATE_FAILED: 0,
    pb.JOB_STATE_LOST: 0,
    pb.JOB_STATE_TIMED_OUT: 0,
    pb.JOB_STATE_CANCELLED: 5,
}
"""Field 11 of the format, for the final states of jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSite:
    """Data of the nodes for the header and the sizes."""

    nodes: int
    cores: int
    """Cores of all nodes."""
    each: int
    """Cores per node that a job on whole nodes gets."""


@click.command()
@click.argument("target", metavar="OUT", type=LOG_FILE)
@click.option(
    "--procs-per-node",
    type=click.IntRange(1),
    metavar="N",
    help="Number of processors that a whole node counts, if nodes differ. Default: the cores of "
    "a node.",
)
@session_command
def collect(session: Session, target: Path, procs_per_node: int | None) -> None:
    """Write the jobs that have run here to the log OUT.

    Use the log to simulate other policies: wattfold simulate --log OUT

    Sizes are in cores; for resizable jobs they are the average number of cores. The requested time
    is the estimate of the user, or else the time limit. Users and programs are numbers. Jobs that
    have not ended or never started are left out. For a job with several attempts, only the last
    attempt counts. Programs, queues and usage are included for your own jobs. Operators get them
    for all jobs.
    """
    from wattfold.simulator.workloads.swf_writer import write_swf

    with session.connect() as client:
        jobs = list(client.list_jobs(include_ended=True, limit=MOST, tasks=True).jobs)
        nodes = list(client.list_nodes().nodes)
    site = site_of(nodes, procs_per_node)
    workload = workload_of(jobs, site)
    with expected_failures():
        write_swf(workload, target)
    left_out = len(jobs) - len(workload)
    if session.json:
        told = {"file": str(target), "jobs": len(workload), "left_out": left_out}
        session.print_json(told | {"procs_per_node": site.each})
        return
    click.echo(f"{len(workload)} jobs written to {target}, {left_out} left out")
    click.echo(f"To simulate whole nodes, use --nodes {site.nodes} --procs-per-node {site.each}.")


def site_of(nodes: Sequence[pb.Node], procs_per_node: int | None) -> CollectedSite:
    """Return the nodes together.

    Raises BadRequestError without nodes, and if nodes differ and ``procs_per_node`` is missing.
    """
    cores = [len(CpuSet.parse(node.cpus)) for node in nodes if node.cpus]
    if not cores:
        raise BadRequestError("no node is known, so sizes in nodes cannot be converted to cores")
    if len(set(cores)) > 1 and procs_per_node is None:
        raise BadRequestError(
            f"nodes have {min(cores)} to {max(cores)} cores; give the number of processors that a "
            "whole node counts with --procs-per-node"
        )
    return CollectedSite(nodes=len(cores), cores=sum(cores), each=procs_per_node or cores[0])


def workload_of(jobs: Sequence[pb.Job], site: CollectedSite) -> Workload:
    """Return the jobs that have run, in order of submission.

    Raises BadRequestError without jobs.
    """
    from wattfold.simulator.workloads.header import Header
    from wattfold.simulator.workloads.workload import Workload

    ran = [job for job in jobs if job.state in STATUS and job.started_at_s]
    if not ran:
        raise BadRequestError("no job has started and ended yet")
    ran.sort(key=lambda job: job.submitted_at_s)
    zero_s = int(ran[0].submitted_at_s)
    procs = [_procs(job, site) for job in ran]
    header = Header().with_value("UnixStartTime", zero_s).with_value("MaxNodes", site.nodes)
    return Workload.of_columns(
        header.with_value("MaxProcs", site.cores),
        submit_s=[round(job.submitted_at_s - zero_s, 3) for job in ran],
        wait_s=[round(max(job.started_at_s - job.submitted_at_s, 0), 3) for job in ran],
        run_s=[round(max(job.ended_at_s - job.started_at_s, 0.001), 3) for job in ran],
        procs=procs,
        requested_procs=procs,
        cpu_s=[round(job.cpu_ns / 1e9 / size, 3) for job, size in zip(ran, procs, strict=True)],
        requested_s=[_requested_s(job.spec) for job in ran],
        status=[STATUS[job.state] for job in ran],
        users=_numbered([job.user for job in ran]),
        executables=_numbered([job.spec.app for job in ran]),
        queues=_numbered([job.spec.queue for job in ran]),
    )


def _procs(job: pb.Job, site: CollectedSite) -> int:
    """Return the requested cores of a job, or for a range the average number of its cores."""
    spec = job.spec
    unit = site.each if spec.unit == pb.SIZE_UNIT_NODES else max(spec.unit_cores, 1)
    least, most = spec.size_min * unit, spec.size_max * unit
    if least == most or job.ended_at_s <= job.started_at_s:
        return max(most, 1)
    held_ns = job.core_ns - sum(attempt.core_ns for attempt in job.attempts)
    held = round(held_ns / 1e9 / (job.ended_at_s - job.started_at_s))
    return max(min(held, most), least, 1)


def _requested_s(spec: pb.JobSpec) -> float:
    from wattfold.simulator.workloads.workload import MISSING

    asked_ns = spec.time_ns or spec.limit_ns
    return asked_ns / 1e9 if asked_ns else MISSING


def _numbered(names: Sequence[str]) -> list[int]:
    """Return names as numbers from 1, in the order of their first occurrence."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names), start=1)}
    return [numbers[name] for name in names]
