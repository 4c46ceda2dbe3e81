"""`run` and `attach`: a job in the foreground, with its output and its exit status."""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.jobs.lists.waiting import JobWaiter, exit_code_of
from wattfold.coordinator.cli.jobs.output_stream import (
    STANDARD_ERROR,
    STANDARD_OUTPUT,
    JobOutputs,
    check_access,
    invisible,
)
from wattfold.coordinator.cli.jobs.scripts.script_command import ScriptCommand
from wattfold.coordinator.cli.jobs.submission.submit import submit
from wattfold.coordinator.cli.jobs.submission.submitting import detached, submitted
from wattfold.coordinator.cli.shared.connection.session import (
    Session,
    pass_session,
    session_command,
)
from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

_QUIET = (
    pb.JOB_STATE_STARTING,
    pb.JOB_STATE_RUNNING,
    pb.JOB_STATE_ENDING,
    pb.JOB_STATE_COMPLETED,
)
_OMITTED = ("json", "idempotency_key", "array", "batch")
_RUNS = (pb.JOB_STATE_STARTING, pb.JOB_STATE_RUNNING, pb.JOB_STATE_SUSPENDED)


def _options() -> list[click.Parameter]:
    """Return the parameters of `submit`. A script may contain --wait, which has no effect here."""
    found = []
    for parameter in submit.params:
        if parameter.name in _OMITTED:
            continue
        parameter = copy.copy(parameter)
        if isinstance(parameter, click.Option) and parameter.name == "wait":
            parameter.hidden = True
        found.append(parameter)
    return found


class Interrupts:
    """Ctrl-C, counted. `listening` makes it arrive here instead of ending the command."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count Ctrl-C while the block runs."""
        before = signal.signal(signal.SIGINT, self._count)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1


class Foreground(JobOutputs):
    """The output of a job in the foreground; Ctrl-C goes to the job."""

    def __init__(self, client: CoordinatorClient, job_id: str, interrupts: Interrupts) -> None:
        super().__init__((STANDARD_OUTPUT, STANDARD_ERROR))
        self._client = client
        self._job_id = job_id
        self._interrupts = interrupts
        self._handled = 0
        self._cancelled = False
        self._job = pb.Job()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has reached the job."""
        return self._handled > 0

    def meet(self, job: pb.Job) -> None:
        """Take the newest state of the job."""
        self._job = job
        super().meet(job)

    def show(self) -> None:
        """Print everything that is new, and pass on Ctrl-C."""
        super().show()
        while self._handled < self._interrupts.count and self._job.state not in f.ENDED_STATES:
            self._handled += 1
            self._pass_on()

    def _pass_on(self) -> None:
        """Interrupt the job; the next time cancel it; then leave it. Raises KeyboardInterrupt."""
        if self._cancelled:
            raise KeyboardInterrupt
        try:
            if self._handled == 1 and self._job.state in _RUNS:
                self._client.signal(self._job_id, signal.SIGINT)
                self._say("SIGINT sent; Ctrl-C again cancels the job")
                return
        except CliError as error:
            self._say(f"SIGINT not sent: {error}")
        self._cancelled = True
        try:
            self._client.cancel(self._job_id)
        except CliError as error:
            self._say(f"not cancelled: {error}; Ctrl-C again leaves the job")
        else:
            self._say("cancelling; Ctrl-C again leaves the job")

    def _say(self, text: str) -> None:
        click.echo(f"wattfold: job {self._job_id}: {text}", err=True)


@click.command(
    cls=ScriptCommand,
    params=_options(),
    context_settings=submit.context_settings,
    options_metavar=submit.options_metavar,
)
@pass_session
def run(session: Session, /, wait: bool, **options: Any) -> None:
    """Submit a job, show its output and exit with its exit status.

    The options are those of `wattfold submit`. While the job waits, the reason is on standard
    error. Standard output and standard error of the job go to those of this command, and also to
    their files. The job reads nothing from this terminal.

    The first Ctrl-C sends SIGINT to the job, or cancels a job that waits. The second Ctrl-C
    cancels the job, the third leaves it. If this command is killed, the job continues; `wattfold
    logs -f` shows its output.

    For example: wattfold run --cores 4 --time 10m -- ./simulate input.dat
    """
    del wait
    if session.json:
        raise click.UsageError("run prints the output of the job; use `wattfold submit --wait`")
    interrupts = Interrupts()
    with session.connect() as client, interrupts.listening():
        job_id = submitted(client, idempotency_key="", **options)
        code = _finish(client, job_id, interrupts)
    click.get_current_context().exit(code)


@click.command()
@click.argument("job_id", metavar="JOB")
@session_command
def attach(session: Session, job_id: str) -> None:
    """Bring a submitted job to the foreground.

    It is then as if `wattfold run` had started it. The command prints the output files of the job
    from their beginning and follows them until the job has ended. It exits with the exit status of
    the job. Ctrl-C goes to the job as in `wattfold run`: the first one sends SIGINT to it, the
    second cancels it, and the third leaves it. To only read the output, use `wattfold logs -f`.

    For example: wattfold attach 17
    """
    if session.json:
        raise click.UsageError("attach prints the output of the job; use `wattfold wait --json`")
    interrupts = Interrupts()
    with session.connect() as client, interrupts.listening():
        found = client.list_jobs([job_id], include_ended=True).jobs
        if not found:
            raise NotFoundError(f"no job {job_id!r}; `wattfold queue --all` lists all jobs")
        check_access(found[0])
        code = _finish(client, job_id, interrupts)
    click.get_current_context().exit(code)


def _finish(client: CoordinatorClient, job_id: str, interrupts: Interrupts) -> int:
    """Show the job to its end and return the exit code of the command."""
    outputs = Foreground(client, job_id, interrupts)
    begun_waiting = False

    def shows(job: pb.Job) -> bool:
        # Every job waits for a moment before its first plan.
        nonlocal begun_waiting
        first, begun_waiting = not begun_waiting, True
        waits_briefly = first and job.state == pb.JOB_STATE_PENDING
        return job.state not in _QUIET and not waits_briefly

    def notice(line: str) -> None:
        click.echo(f"wattfold: job {job_id}: {line}", err=True)

    try:
        job = JobWaiter(client, job_id, notice, output=outputs, shows=shows).wait()
    except KeyboardInterrupt:
        detached(job_id)
        return ExitCode.INTERRUPTED
    assert job is not None, "nothing else stops this wait"
    for file in outputs.missing if job.outputs else ():
        click.echo(f"wattfold: {invisible(job_id, file)}", err=True)
    if job.state == pb.JOB_STATE_CANCELLED and outputs.interrupted:
        return ExitCode.INTERRUPTED
    return exit_code_of(job)
