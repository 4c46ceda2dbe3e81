"""`submit`: submit a job, and follow it to its end with --wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wattfold.coordinator.cli.jobs.scripts.script_command import ScriptCommand
from wattfold.coordinator.cli.jobs.submission import job_request as request
from wattfold.coordinator.cli.jobs.submission.batch import submit_batch
from wattfold.coordinator.cli.jobs.submission.start_options import start_options
from wattfold.coordinator.cli.jobs.submission.submitted_spec import REQUEUED
from wattfold.coordinator.cli.jobs.submission.submitting import follow, submitted
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
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


def _renamed(_context: click.Context, _option: click.Parameter, given: str | None) -> None:
    if given is not None:
        raise click.UsageError(
            "no option --limit: the time limit is --time, an estimate of the run time is --estimate"
        )


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [--]",
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
    "limit_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Time limit, such as 90s, 5m, 1h30m or HH:MM:SS. Wattfold ends the job at this limit. "
    "Plans do not expect the job to run longer. Default: the limit of the queue or site, if there "
    "is one.",
)
@click.option(
    "--estimate",
    "time_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Estimate of the run time at the maximum size, at most the time limit. It ends no job. "
    "Default: the run time in the profile of the application, or else the time limit.",
)
@click.option("--limit", "time_words", hidden=True, expose_value=False, callback=_renamed)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="Name of the job, at most 100 printable characters. Default: the name of the program.",
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
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="Priority of the job, above 0 and at most 1000. Depending on the policy, a higher value "
    "means an earlier place in the queue or a larger weight.",
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
    help="File for standard output, relative to the working directory of the job. Patterns: %j "
    "(job ID), %A (array ID), %a (index in the array), %x (job name), %u (account), %N (node), %n "
    "(number of the node in the job), %% (a percent sign). Default: wattfold-%j.out.",
)
@click.option(
    "--error",
    default="",
    metavar="FILE",
    help="File for standard error, as for --output. Default: wattfold-%j.err.",
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
    flag_value=REQUEUED,
    default=0,
    metavar="[N]",
    help="Restart the job when one of its nodes is lost, at most N times. Without a number: 3. "
    "Without this option: 0.",
)
@click.option(
    "--requeue-on",
    type=click.Choice(["loss", "failure"]),
    default="loss",
    show_default=True,
    help="Event that restarts the job. With failure, Wattfold also restarts a job that exits with "
    "an error or is killed. A training job that fails again before it saves another epoch is not "
    "restarted. Losses and failures together count for --requeue, which is implied.",
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
    help="Package cap of each node, in watts, instead of the cap that the policy chooses. The job "
    "waits while the budget is too low for its caps.",
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
@start_options
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
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="NUMBER",
    help="Weight of the tardiness of this job relative to other jobs, above 0 and at most 1000. "
    "Used by policies with due dates.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 10_000_000),
    metavar="N",
    help="Total number of epochs of a training job, WATTFOLD_EPOCHS in its environment. The "
    "program writes snapshots and reports its saved epochs (see wattfold.training).",
)
@click.option(
    "--idempotency-key",
    default="",
    metavar="KEY",
    help="Key that makes a repeated submission harmless: the same key returns the ID of the "
    "first job. A different command under the same key is refused.",
)
@click.option(
    "--batch",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Submit one job for each line of a file, or of standard input with -. A line has options "
    "and a command, as after `wattfold submit`. Options of the command line come before those of "
    "the line.",
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
def submit(session: Session, /, wait: bool, batch: Path | None, **options: Any) -> None:
    """Submit a job and print its ID.

    The job runs under the account of the user who submits it, with the groups of that account. It
    inherits the umask of this shell and its limits on files, processes, stack and core dumps.

    A script may contain options in lines such as `#WATTFOLD --cores 4 --time 10m`. Common options
    in #SBATCH lines are read as well. Options of the command line win. With `-`, or without a
    command, the script is read from standard input.

    For example: wattfold submit --cores 2-8 --time 30m --estimate 10m -- ./simulate input.dat
    """
    if batch is not None:
        if wait:
            raise click.UsageError("--batch does not wait; use `wattfold wait` with the job IDs")
        command = click.get_current_context().command
        assert isinstance(command, ScriptCommand)
        submit_batch(session, command, batch)
        return
    with session.connect() as client:
        job_id = submitted(client, **options)
        if wait:
            follow(session, client, job_id)
    if session.json:
        session.print_json({"job_id": job_id})
    else:
        click.echo(job_id)
