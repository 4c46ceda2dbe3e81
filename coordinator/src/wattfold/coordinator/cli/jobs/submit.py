"""`submit`: submit a job, and follow it to its end with --wait."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.jobs import job_request as request
from wattfold.coordinator.cli.jobs.charm_command import charm_command
from wattfold.coordinator.cli.jobs.mode_choice import choose_mode
from wattfold.coordinator.cli.jobs.waiting import JobWaiter, exit_code_of
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.parsing import (
    DURATION_NS,
    MEMORY_BYTES,
    NAMES,
    POWER_UW,
    SETTING,
    SIGNAL,
    SIZE_RANGE,
    TIME_S,
)
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.client import CoordinatorClient


@click.command(
    context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]"
)
@click.option(
    "--cores",
    type=SIZE_RANGE,
    metavar="MIN[-MAX]",
    help="Number of cores of one node, or a range such as 2-8. Default: 1.",
)
@click.option(
    "--nodes",
    type=SIZE_RANGE,
    metavar="MIN[-MAX]",
    help="Number of whole nodes, or a range, instead of cores.",
)
@click.option(
    "--units",
    type=SIZE_RANGE,
    metavar="MIN[-MAX]",
    help="Number of identical units on parts of nodes, or a range, instead of cores. Each unit "
    "is one task with its own cores. A node may hold several units.",
)
@click.option(
    "--unit-cores",
    type=click.IntRange(1, 65_536),
    metavar="N",
    help="Number of cores of each unit. Default: 1.",
)
@click.option(
    "--spread",
    "spreads",
    type=click.Choice(list(request.SPREADS)),
    multiple=True,
    help="Placement of units. together: all on one node. apart: one per node. Default: any, or "
    "together for jobs on GPUs with --epochs or --resize restart.",
)
@click.option(
    "--kind",
    type=click.Choice(list(request.KINDS)),
    help="Kind of the job. rigid: one size. moldable: sized at its start. malleable: resized "
    "while it runs. evolving: requests its own resizes. Default: malleable for a range or with "
    "--share, moldable for a range of units, or else rigid.",
)
@click.option(
    "--mode",
    "--resize",
    "mode",
    type=click.Choice(request.WAYS),
    help="Way of resizing the job. With map, the objects of a Charm++ program move. With "
    "rebuild, a Charm++ program built with --enable-shrinkexpand restarts itself on other PEs. "
    "With restart, the program saves a snapshot on a signal and exits. Wattfold restarts it at "
    "another size, and it resumes from WATTFOLD_SNAPSHOT_DIR. Jobs of units are requeued for "
    "this. With team, the cores and the OpenMP team change while it runs. With mask, only the "
    "cores change. The value cores means team for a certified program, or else mask. With fixed, "
    "the job keeps its size. Default: fixed for rigid and moldable jobs, or else cores.",
)
@click.option(
    "--time",
    "time_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Estimate of the run time at the maximum size, such as 90s, 5m, 1h30m or HH:MM:SS.",
)
@click.option(
    "--limit",
    "limit_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Time limit, such as 90s, 1h30m or HH:MM:SS. Wattfold ends the job at this limit. "
    "Default: the limit of the queue or site, if there is one.",
)
@click.option(
    "--name", default="", metavar="NAME", help="Name of the job. Default: the name of the program."
)
@click.option(
    "--app",
    default="",
    metavar="NAME",
    help="Name of the application, which is the key of its profile. Default: the name of the "
    "program.",
)
@click.option(
    "--priority",
    type=click.FloatRange(0, 1e6, min_open=True),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="Priority of the job, above 0. Depending on the policy, a higher value means an earlier "
    "place in the queue or a larger weight.",
)
@click.option(
    "--export",
    type=click.Choice(["all", "none"]),
    default="all",
    show_default=True,
    help="Environment of the job. all: the environment of this shell. none: only PATH, HOME, "
    "USER and LANG.",
)
@click.option("--no-env", is_flag=True, help="Same as --export none.")
@click.option(
    "--env",
    "settings",
    type=SETTING,
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable for the job: NAME=VALUE, or NAME to pass on the value of this "
    "shell. May be repeated.",
)
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Working directory of the job. Default: the current directory.",
)
@click.option(
    "--output",
    default="",
    metavar="FILE",
    help="File for standard output, relative to the working directory of the job. Default: "
    "wattfold-ID.out.",
)
@click.option(
    "--error",
    default="",
    metavar="FILE",
    help="File for standard error, relative to the working directory of the job. Default: "
    "wattfold-ID.err.",
)
@click.option(
    "--tasks-per-node",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes per node that get their own cores, such as MPI ranks. Each gets at "
    "least one core. With --units, each unit is one task.",
)
@click.option(
    "--own-launcher",
    is_flag=True,
    help="Treat the command as a launcher such as mpirun. It runs on the first node only and "
    "starts the other processes of the job with `wattfold rsh`.",
)
@click.option(
    "--requeue",
    "requeue_max",
    type=click.IntRange(0, 99),
    is_flag=False,
    flag_value=3,
    default=0,
    metavar="[N]",
    help="Restart the job when one of its nodes is lost, at most N times. Without a number: 3. "
    "Without this option: 0.",
)
@click.option(
    "--restartable",
    is_flag=True,
    help="Allow `wattfold requeue` for this job. Implied by --preemptable, --requeue, --epochs "
    "and the snapshot options.",
)
@click.option(
    "--preemptable",
    is_flag=True,
    help="Let a job of a preempting queue displace this job (PREEMPTS in `wattfold queues`). The "
    "policy `andreas` preempts training jobs (--epochs) by its own rules.",
)
@click.option(
    "--snapshot-dir",
    default="",
    metavar="DIR",
    help="Directory for the snapshots of the job. Wattfold sets WATTFOLD_SNAPSHOT_DIR to it in "
    "every attempt. Default: wattfold-ID.snapshot in the working directory.",
)
@click.option(
    "--snapshot-signal",
    type=SIGNAL,
    metavar="NAME",
    help="Signal that asks the program to write a snapshot before a restart, such as USR1. "
    "Default: TERM.",
)
@click.option(
    "--snapshot-grace",
    "snapshot_grace_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Time for writing the snapshot, such as 30s, at most 1h. Default: the grace time of the "
    "site.",
)
@click.option("--exclusive", is_flag=True, help="Run no other job on the nodes of this job.")
@click.option(
    "--share",
    type=click.Choice(list(request.SHARES)),
    help="Sharing of cores under a policy that supports it. lend: other jobs may borrow some "
    "cores of this job. borrow: the job may start on fewer cores, next to jobs that lend. "
    "Default: the setting of the queue, or else both for malleable jobs on cores and no for jobs "
    "on whole nodes.",
)
@click.option(
    "--cap",
    "cap_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="Package cap of each node, in watts, instead of the cap that the policy chooses.",
)
@click.option(
    "--predicted-power",
    "predicted_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="Predicted power of the whole job at full speed, above idle, in watts. The policy "
    "`constraint` chooses the cap from it.",
)
@click.option(
    "--dram-cap",
    "dram_cap_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="DRAM cap of each node, in watts. Default: the cap that the policy chooses, or else the "
    "default cap.",
)
@click.option(
    "--gpu-cap",
    "gpu_cap_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="Cap of each GPU, in watts. Default: the limit that the policy chooses, or else the "
    "maximum.",
)
@click.option(
    "--memory",
    "memory_bytes",
    type=MEMORY_BYTES,
    metavar="SIZE",
    help="Memory on each node of the job, or for each unit with --units, such as 512M or 4G. "
    "Wattfold reserves it, and ends a job that uses more.",
)
@click.option(
    "--gpus",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Number of GPUs on each node of the job, or for each unit with --units.",
)
@click.option(
    "--features",
    type=NAMES,
    metavar="NAME[,NAME]...",
    help="Names of features that every node of the job must have.",
)
@click.option(
    "--among",
    type=NAMES,
    metavar="NODE[,NODE]...",
    help="Names of the nodes that the job may use. The job may get some or all of them.",
)
@click.option(
    "--queue",
    default="",
    metavar="NAME",
    help="Queue of the job (see `wattfold queues`). Default: the queue `default`, if the site "
    "has one.",
)
@click.option(
    "--reservation",
    default="",
    metavar="NAME",
    help="Reservation to run in (see `wattfold reservations`). The job runs nowhere else.",
)
@click.option(
    "--due",
    "due_at_s",
    type=TIME_S,
    metavar="TIME|DURATION",
    help="Due date, such as 2027-01-31T18:00, or 2h for two hours from now. Used by policies "
    "with due dates.",
)
@click.option(
    "--weight",
    type=click.FloatRange(0, 1000, min_open=True),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="Weight of the tardiness of this job relative to other jobs. Used by policies with due "
    "dates.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 10_000_000),
    metavar="N",
    help="Total number of epochs of a training job, WATTFOLD_EPOCHS in its environment. The "
    "program writes snapshots and reports its saved epochs (see wattfold.training).",
)
@click.option("--hold", is_flag=True, help="Hold the job until `wattfold release`.")
@click.option(
    "--idempotency-key",
    default="",
    metavar="KEY",
    help="Key that makes a repeated submission harmless: the same key returns the ID of the "
    "first job. A different command under the same key is refused.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait for the end of the job and exit with its exit code. Ctrl-C detaches; the job "
    "continues.",
)
@click.option(
    "--no-check", is_flag=True, help="Skip the check that the command exists on this machine."
)
@click.argument("argv", metavar="COMMAND [ARGS]...", nargs=-1, required=True)
@session_command
def submit(session: Session, /, wait: bool, **options: Any) -> None:
    """Submit a job and print its ID.

    The job runs under the account of the user who submits it, with the groups of that account. It
    inherits the umask of this shell and its limits on files, processes, stack and core dumps.

    For example: wattfold submit --cores 2-8 --time 10m -- ./simulate input.dat
    """
    submission = _submission(**options)
    with session.connect() as client:
        choice = choose_mode(options["mode"], submission.spec, client)
        submission.spec.mode, submission.spec.mode_source = choice.mode, choice.source
        if choice.warning:
            click.echo(f"wattfold: {choice.warning}", err=True)
        if choice.mode in (request.MODES["map"], request.MODES["rebuild"]):
            _start_as_charm(submission.spec, checked=not options["no_check"])
        job_id = client.submit(submission)
        if wait:
            _follow(session, client, job_id)
    if session.json:
        session.print_json({"job_id": job_id})
    else:
        click.echo(job_id)


def _start_as_charm(spec: pb.JobSpec, *, checked: bool) -> None:
    found = charm_command(spec, checked=checked)
    spec.argv[:] = found.argv
    if found.warning:
        click.echo(f"wattfold: {found.warning}", err=True)


def _submission(
    *, hold: bool, idempotency_key: str, no_check: bool, **options: Any
) -> pb.SubmitRequest:
    spec = _spec(**options)
    if not no_check:
        request.check_command(spec.argv, Path(spec.cwd), spec.env)
    # A key of our own makes a retry of the same call, by gRPC or a proxy, harmless.
    key = idempotency_key or uuid.uuid4().hex
    return pb.SubmitRequest(spec=spec, idempotency_key=key, held=hold)


def _spec(
    *,
    argv: tuple[str, ...],
    name: str,
    app: str,
    cwd: Path | None,
    output: str,
    error: str,
    time_ns: int | None,
    limit_ns: int | None,
    cap_uw: int | None,
    **options: Any,
) -> pb.JobSpec:
    again = bool(options["gpus"] and (options["mode"] == "restart" or options["epochs"]))
    units = request.gpu_units(options["cores"], options["nodes"], options["units"], again)
    unit, size = request.size_of(options["cores"], options["nodes"], units)
    spreads = options["spreads"]
    if unit == pb.SIZE_UNIT_UNITS and again and not spreads:
        spreads = ("together",)
    unit_cores, spread = request.unit_fields(unit, options["unit_cores"], spreads)
    share = options["share"]
    kind = request.kind_of(options["kind"], size, share, unit)
    export_all = options["export"] == "all" and not options["no_env"]
    request.check_name("--name", name)
    request.check_name("--app", app)
    return pb.JobSpec(
        name=name or request.program_name(argv[0]),
        app=app,
        argv=argv,
        env=request.environment_of(os.environ, export_all, options["settings"]),
        cwd=str(request.directory(cwd)),
        stdout_path=output,
        stderr_path=error,
        kind=kind,
        unit=unit,
        size_min=size.least,
        size_max=size.greatest,
        unit_cores=unit_cores,
        spread=spread,
        time_ns=time_ns or 0,
        limit_ns=limit_ns or 0,
        priority=options["priority"],
        exclusive=options["exclusive"],
        tasks_per_node=options["tasks_per_node"],
        own_launcher=options["own_launcher"],
        cap_uw=cap_uw or 0,
        predicted_uw=options["predicted_uw"] or 0,
        dram_cap_uw=options["dram_cap_uw"] or 0,
        gpu_cap_uw=options["gpu_cap_uw"] or 0,
        memory_bytes=options["memory_bytes"] or 0,
        gpus=options["gpus"] or 0,
        features=options["features"] or (),
        among=options["among"] or (),
        due_at_s=options["due_at_s"] or 0.0,
        weight=options["weight"],
        queue=options["queue"],
        reservation=options["reservation"],
        umask=request.umask(),
        resource_limits=request.soft_limits(),
        requeue_max=options["requeue_max"],
        restartable=options["restartable"],
        preemptable=options["preemptable"],
        sharing=request.SHARES[share] if share else pb.CORE_SHARING_UNSPECIFIED,
        snapshot_dir=options["snapshot_dir"],
        snapshot_signal=options["snapshot_signal"] or 0,
        snapshot_grace_ns=options["snapshot_grace_ns"] or 0,
        epochs=options["epochs"] or 0,
    )


def _follow(session: Session, client: CoordinatorClient, job_id: str) -> None:
    """Shows what happens to the job, and ends the command with the exit code of the job."""
    context = click.get_current_context()

    def notice(line: str) -> None:
        click.echo(f"{job_id} {line}", err=True)

    if not session.json:
        click.echo(job_id)
    try:
        job = JobWaiter(client, job_id, notice).wait()
    except KeyboardInterrupt:
        click.echo(
            f"wattfold: detached, the job continues; see `wattfold show {job_id}`, or stop it with "
            f"`wattfold cancel {job_id}`",
            err=True,
        )
        context.exit(ExitCode.INTERRUPTED)
    assert job is not None, "nothing else stops this wait"
    if session.json:
        session.print_json(as_dict(job))
    context.exit(exit_code_of(job))
