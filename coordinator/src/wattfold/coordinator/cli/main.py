"""Entry point of `wattfold`: global options, the commands, and the end of expected failures.

Each group of commands has its own files. They are imported only when they run, so that the command
starts quickly.
"""

from __future__ import annotations

import difflib
import io
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, NoReturn

import click

from wattfold.coordinator.cli.shared.connection.address import checked_address, default_address
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.lazy_group import LazyGroup
from wattfold.coordinator.cli.shared.parsed import Parsed


class RootCommand(LazyGroup):
    """Root command that loads commands when needed and ends expected failures with one line."""

    COMMANDS: ClassVar[Mapping[str, str]] = {
        "submit": "jobs.submission.submit:submit",
        "run": "jobs.submission.run:run",
        "queue": "jobs.lists.queue:queue",
        "show": "jobs.jobs:show",
        "explain": "jobs.jobs:explain",
        "history": "history.history:history",
        "report": "history.report:report",
        "attach": "jobs.submission.run:attach",
        "logs": "jobs.logs:logs",
        "cancel": "jobs.control:cancel",
        "hold": "jobs.control:hold",
        "release": "jobs.control:release",
        "wait": "jobs.wait_command:wait",
        "requeue": "jobs.attempts:requeue",
        "modify": "jobs.modify:modify",
        "resize": "jobs.attempts:resize",
        "suspend": "jobs.attempts:suspend",
        "resume": "jobs.attempts:resume",
        "signal": "jobs.signals:signal",
        "shell": "rsh.shell:shell",
        "nodes": "site.nodes:nodes",
        "queues": "site.queues:queues",
        "accounts": "site.accounts:accounts",
        "reserve": "site.reserve:reserve",
        "reservations": "site.reserve:reservations",
        "node": "site.node:node",
        "power": "site.power:power",
        "budget": "site.budget:budget",
        "reload": "site.reload:reload",
        "watch": "site.watch:watch",
        "web": "web.command:web",
        "profile": "profiles.profile_group:profile",
        "audit": "site.audit:audit",
        "profiles": "profiles.profiles:profiles",
        "certify": "profiles.certify:certify",
        "workload": "workloads.workload:workload",
        "policies": "simulation.policies:policies",
        "simulate": "simulation.runs.simulate:simulate",
        "compare": "simulation.compare:compare",
        "what-if": "simulation.site_queue.what_if:what_if",
        "advise": "simulation.advice.advise:advise",
        "reproduce": "simulation.reproduction.reproduce:reproduce",
        "rsh": "rsh.rsh_command:rsh",
        "completion": "shared.completion:completion",
    }

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            ctx.exit(ExitCode.OUTPUT_CLOSED)
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002
        **extra: Any,
    ) -> NoReturn:
        """Run the command and exit; `standalone_mode` is click's and has no effect."""
        try:
            code = super().main(
                args, prog_name or "wattfold", complete_var, standalone_mode=False, **extra
            )
        except click.Abort:
            sys.exit(ExitCode.INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(ExitCode.USAGE)
        except click.UsageError as error:
            if isinstance(error, click.NoSuchOption):
                error = _with_close_names(error)
            hint = f"; see `{error.ctx.command_path} --help`" if error.ctx else ""
            _fail(_one_line(error.format_message()).rstrip(".") + hint, ExitCode.USAGE)
        except click.ClickException as error:
            _fail(_one_line(error.format_message()), ExitCode.REFUSED)
        except CliError as error:
            _fail(_one_line(str(error)), error.exit_code)
        except UnicodeEncodeError as error:
            # Names of jobs, nodes and queues are sent as UTF-8 text.
            _fail(f"{error.object!r} is not UTF-8 text", ExitCode.USAGE)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


def _with_close_names(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return the same error, with suggestions of only very similar options.

    The limit of click (0.6) suggests --idempotency-key for --dependency.
    """
    close = difflib.get_close_matches(error.option_name, error.possibilities or (), cutoff=0.75)
    return click.NoSuchOption(error.option_name, possibilities=close, ctx=error.ctx)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fail(message: str, code: ExitCode) -> NoReturn:
    click.echo(f"wattfold: {message}", err=True)
    sys.exit(code)


def _discard_output() -> None:
    """Prevent the interpreter from flushing into the closed pipe once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _version() -> str:
    import importlib.metadata  # It loads slowly.

    try:
        return importlib.metadata.version("wattfold")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed as a package)"


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"wattfold, version {_version()}")
        context.exit()


ADDRESS = Parsed("address", checked_address)


@click.group(
    cls=RootCommand,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or job failed, 2 usage, 3 no coordinator, 4 no such job, "
    "6 coordinator busy, 7 no access to its socket, 8 unknown host, 9 timed out, 10 other server.",
)
@click.option(
    "--coordinator",
    "address",
    type=ADDRESS,
    metavar="ADDRESS",
    envvar="WATTFOLD_COORDINATOR",
    help="Address of the coordinator: unix:/path/to.sock or host:port. Default: "
    "WATTFOLD_COORDINATOR, or else a socket in the runtime directory.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    envvar="WATTFOLD_TOKEN_FILE",
    help="File with the token for a coordinator reached by host:port. Default: "
    "WATTFOLD_TOKEN_FILE, or else no token.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
@click.option("--no-color", is_flag=True, help="Print without colours, as with NO_COLOR set.")
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(
    context: click.Context,
    address: str | None,
    token_file: str | None,
    as_json: bool,
    no_color: bool,
) -> None:
    """Submit, monitor and control jobs on a cluster with a fixed power budget."""
    context.obj = Session(
        address=address or default_address(),
        token_file=token_file,
        json=as_json,
        color=not no_color,
    )


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `wattfold` with these arguments (default: those of the process) and exit."""
    environment: MutableMapping[str, str] = os.environ
    # gRPC's C core writes connection failures to stderr by itself; the command describes them
    # better.
    environment.setdefault("GRPC_VERBOSITY", "NONE")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters outside the encoding of the terminal are shown as in \u7c73.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli.main(args=list(argv) if argv is not None else None)


if __name__ == "__main__":
    main()
