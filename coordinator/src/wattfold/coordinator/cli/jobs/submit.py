"""`submit`: hand in a job, and with --wait follow it to its end."""

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
    help="Cores of one node. Default: 1.",
)
@click.option("--nodes", type=SIZE_RANGE, metavar="MIN[-MAX]", help="Whole nodes instead of cores.")
@click.option(
    "--units",
    type=SIZE_RANGE,
    metavar="MIN[-MAX]",
    help="Like units on parts of nodes instead, each a task with cores of its own; a node may "
    "hold several.",
)
@click.option(
    "--unit-cores",
    type=click.IntRange(1, 65_536),
    metavar="N",
    help="Cores of each unit. Default: 1.",
)
@click.option(
    "--spread",
    "spreads",
    type=click.Choice(list(request.SPREADS)),
    multiple=True,
    help="together: all units on one node. apart: one a node. Default: any, of trainings on GPUs "
    "together.",
)
@click.option(
    "--kind",
    type=click.Choice(list(request.KINDS)),
    help="rigid: one size. moldable: sized at its start. malleable: resized while it runs. "
    "evolving: asks to be resized. Default: malleable for a range or with --share, moldable for a "
    "range of units, else rigid.",
)
@click.option(
    "--mode",
    "--resize",
    "mode",
    type=click.Choice(request.WAYS),
    help="How it is resized. map: the objects of a Charm++ program move. rebuild: a Charm++ "
    "program built for it restarts itself on other PEs. restart: told to, it saves, and goes on "
    "from WATTFOLD_SNAPSHOT_DIR at another size; units are put back for others. cores: its cores "
    "change under it; if its program is certified for that, also its OpenMP team. team, mask: the "
    "latter, or never. fixed: it keeps its size. Default: fixed for rigid and moldable jobs, for "
    "others cores.",
)
@click.option(
    "--time",
    "time_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Estimate of the run time at the greatest size: 90s, 5m, 1h30m, HH:MM:SS.",
)
@click.option(
    "--limit",
    "limit_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="End the job when it has run so long. Default: the limit of the site, if it has one.",
)
@click.option("--name", default="", metavar="NAME", help="Name of the job. Default: the program.")
@click.option(
    "--app",
    default="",
    metavar="NAME",
    help="Application, the key of its profile. Default: the program.",
)
@click.option(
    "--priority",
    type=click.FloatRange(0, 1e6, min_open=True),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="Scales the weight of the job.",
)
@click.option(
    "--export",
    type=click.Choice(["all", "none"]),
    default="all",
    show_default=True,
    help="all: the job gets the environment of this shell. none: only PATH, HOME, USER, LANG.",
)
@click.option("--no-env", is_flag=True, help="The same as --export none.")
@click.option(
    "--env",
    "settings",
    type=SETTING,
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Set a variable for the job, or pass on this one. May be repeated.",
)
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Working directory of the job. Default: this one.",
)
@click.option(
    "--output",
    default="",
    metavar="FILE",
    help="Standard output, relative to the directory of the job. Default: wattfold-ID.out there.",
)
@click.option(
    "--error", default="", metavar="FILE", help="Standard error. Default: wattfold-ID.err there."
)
@click.option(
    "--tasks-per-node",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes a node that get cores of their own, such as MPI ranks; one core each at least. "
    "With --units each unit is one.",
)
@click.option(
    "--own-launcher",
    is_flag=True,
    help="The command is a launcher such as mpirun: it runs on the first node only, and starts the "
    "rest of the job with `wattfold rsh`.",
)
@click.option(
    "--requeue",
    "requeue_max",
    type=click.IntRange(0, 99),
    is_flag=False,
    flag_value=3,
    default=0,
    metavar="[N]",
    help="When a node of it is lost, start it again, at most N times (3 without a number).",
)
@click.option(
    "--restartable",
    is_flag=True,
    help="It may be started again (`wattfold requeue`); so may a job with an option beside this.",
)
@click.option(
    "--preemptable",
    is_flag=True,
    help="It may be put back for a job of a queue that pre-empts its own (`wattfold queues`); of "
    "training jobs (--epochs) `andreas` decides.",
)
@click.option(
    "--snapshot-dir",
    default="",
    metavar="DIR",
    help="Where it keeps its snapshot; WATTFOLD_SNAPSHOT_DIR of every attempt. Default: "
    "wattfold-ID.snapshot in its directory.",
)
@click.option(
    "--snapshot-signal",
    type=SIGNAL,
    metavar="NAME",
    help="What tells it to write one before it is ended to be started again. Default: TERM.",
)
@click.option(
    "--snapshot-grace",
    "snapshot_grace_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="How long it has for that. Default: the grace time of the site.",
)
@click.option("--exclusive", is_flag=True, help="No other job on its nodes.")
@click.option(
    "--share",
    type=click.Choice(list(request.SHARES)),
    help="Under a policy that shares cores. lend: others may have some of its cores for a while. "
    "borrow: it may start on fewer, beside those that lend. Default: as its queue says, else both "
    "for malleable jobs on cores, and no for jobs on whole nodes.",
)
@click.option(
    "--cap",
    "cap_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="A fixed package cap a node, instead of the choice of the policy.",
)
@click.option(
    "--predicted-power",
    "predicted_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="What all of it will draw at full speed, above what idle nodes do. A policy that plans "
    "with it (`constraint`) gives the job no higher cap than it needs for that.",
)
@click.option(
    "--dram-cap",
    "dram_cap_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="A fixed cap for the DRAM of a node, instead of what stands there or the policy chooses.",
)
@click.option(
    "--gpu-cap",
    "gpu_cap_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="A fixed cap for each of its GPUs. Default: what they stand at.",
)
@click.option(
    "--memory",
    "memory_bytes",
    type=MEMORY_BYTES,
    metavar="SIZE",
    help="Memory on every node it is on, or with --units for each unit, such as 4G. It is kept for "
    "the job, which is ended when it uses more on a node than it has there.",
)
@click.option(
    "--gpus",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="GPUs of its own on every node it is on, or with --units for each unit.",
)
@click.option(
    "--features",
    type=NAMES,
    metavar="NAME[,NAME]...",
    help="Only on nodes that have all of these.",
)
@click.option(
    "--among",
    type=NAMES,
    metavar="NODE[,NODE]...",
    help="Only on these nodes, or some of them.",
)
@click.option(
    "--queue", default="", metavar="NAME", help="One of `wattfold queues`. Default: `default`."
)
@click.option(
    "--reservation",
    default="",
    metavar="NAME",
    help="Run in one of `wattfold reservations`, and nowhere else.",
)
@click.option(
    "--due",
    "due_at_s",
    type=TIME_S,
    metavar="TIME|DURATION",
    help="When it should be done: 2027-01-31T18:00, or 2h from now. For policies that go by it.",
)
@click.option(
    "--weight",
    type=click.FloatRange(0, 1000, min_open=True),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="What its being done in time is worth beside others. For policies that go by it.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 10_000_000),
    metavar="N",
    help="It is a training of so many epochs, keeps snapshots and tells how many are in them: see "
    "wattfold.training. WATTFOLD_EPOCHS of every attempt.",
)
@click.option("--hold", is_flag=True, help="Do not start it before `wattfold release`.")
@click.option(
    "--idempotency-key",
    default="",
    metavar="KEY",
    help="A second submission with the same key gives the first job again; one with another "
    "command is refused.",
)
@click.option(
    "--wait", is_flag=True, help="Wait for its end and exit with its exit code. Ctrl-C detaches."
)
@click.option("--no-check", is_flag=True, help="Do not look for the command on this machine.")
@click.argument("argv", metavar="COMMAND [ARGS]...", nargs=-1, required=True)
@session_command
def submit(session: Session, /, wait: bool, **options: Any) -> None:
    """Submit a job and print its id.

    It runs as the account that submits it, with its groups, and with the umask of this shell and
    its limits on files, processes, stack and core dumps.

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
            f"wattfold: detached; the job goes on: wattfold show {job_id}, "
            f"wattfold cancel {job_id}",
            err=True,
        )
        context.exit(ExitCode.INTERRUPTED)
    assert job is not None, "nothing else stops this wait"
    if session.json:
        session.print_json(as_dict(job))
    context.exit(exit_code_of(job))
