"""Entry point of `wattfold`: global options, the commands, and how an expected failure ends.

The commands are in files of their own, one a group, and are only imported when they are run, so
that the command is quick to start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, NoReturn

import click

from wattfold.coordinator.cli.shared.address import checked_address, default_address
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.lazy_group import LazyGroup
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.session import Session


class RootCommand(LazyGroup):
    """Loads commands when needed and ends expected failures with one line and their exit code."""

    COMMANDS: ClassVar[Mapping[str, str]] = {
        "submit": "jobs.submit:submit",
        "queue": "jobs.jobs:queue",
        "show": "jobs.jobs:show",
        "explain": "jobs.jobs:explain",
        "cancel": "jobs.control:cancel",
        "hold": "jobs.control:hold",
        "release": "jobs.control:release",
        "requeue": "jobs.attempts:requeue",
        "resize": "jobs.attempts:resize",
        "suspend": "jobs.attempts:suspend",
        "resume": "jobs.attempts:resume",
        "nodes": "site.nodes:nodes",
        "queues": "site.queues:queues",
        "reserve": "site.reserve:reserve",
        "reservations": "site.reserve:reservations",
        "node": "site.node:node",
        "power": "site.power:power",
        "budget": "site.budget:budget",
        "watch": "site.watch:watch",
        "profile": "profiles.profile_group:profile",
        "audit": "site.audit:audit",
        "profiles": "profiles.profiles:profiles",
        "certify": "profiles.certify:certify",
        "workload": "workloads.workload:workload",
        "policies": "simulation.policies:policies",
        "simulate": "simulation.simulate:simulate",
        "compare": "simulation.compare:compare",
        "reproduce": "simulation.reproduce:reproduce",
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
        """Runs the command and exits; `standalone_mode` is click's and makes no difference."""
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
            hint = f"; see `{error.ctx.command_path} --help`" if error.ctx else ""
            _fail(_one_line(error.format_message()).rstrip(".") + hint, ExitCode.USAGE)
        except click.ClickException as error:
            _fail(_one_line(error.format_message()), ExitCode.REFUSED)
        except CliError as error:
            _fail(_one_line(str(error)), error.exit_code)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fail(message: str, code: ExitCode) -> NoReturn:
    click.echo(f"wattfold: {message}", err=True)
    sys.exit(code)


def _discard_output() -> None:
    """Keeps the interpreter from flushing into the closed pipe once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _version() -> str:
    import importlib.metadata  # It takes its time to load.

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
    epilog="Exit codes: 0 done, 1 refused or job failed, 2 usage, 3 no coordinator, 4 no such job.",
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
        address=address or checked_address(default_address()),
        token_file=token_file,
        json=as_json,
        color=not no_color,
    )


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs `wattfold` with these arguments (default: those of the process) and exits."""
    environment: MutableMapping[str, str] = os.environ
    # gRPC's C core writes connection failures to stderr by itself; the command words them better.
    environment.setdefault("GRPC_VERBOSITY", "NONE")
    cli.main(args=list(argv) if argv is not None else None)


if __name__ == "__main__":
    main()
