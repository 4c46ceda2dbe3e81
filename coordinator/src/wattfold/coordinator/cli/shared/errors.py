"""Expected failures of a command, each with its exit code and one line for people.

    CliError          refused, exit 1
    ├── UnreachableError   no coordinator, exit 3
    ├── NotFoundError      no such job or profile, exit 4
    └── BadRequestError    the command line, exit 2

A bug is not among them: it shows its traceback.
"""

from __future__ import annotations

from wattfold.coordinator.cli.shared.exit_codes import ExitCode


class CliError(Exception):
    """Ends the command with one line on standard error."""

    exit_code = ExitCode.REFUSED


class UnreachableError(CliError):
    """The coordinator does not answer at the address."""

    exit_code = ExitCode.UNREACHABLE


class NotFoundError(CliError):
    """The named object does not exist."""

    exit_code = ExitCode.NO_SUCH_JOB


class BadRequestError(CliError):
    """The command line asks for something that cannot be sent."""

    exit_code = ExitCode.USAGE
