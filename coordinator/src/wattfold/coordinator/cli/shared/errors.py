"""Expected failures of a command, each with its exit code and one line for people.

    CliError          refused, exit 1
    ├── UnreachableError   no coordinator, exit 3
    │   ├── BusyError          it takes no more connections, exit 6
    │   ├── NoAccessError      its socket may not be opened, exit 7
    │   ├── UnknownHostError   its host has no address, exit 8
    │   ├── TimedOutError      no connection or answer in time, exit 9
    │   └── OtherServerError   another server is at its address, exit 10
    ├── NotFoundError      no such job or profile, exit 4
    └── BadRequestError    the command line, exit 2

A bug is not included: it shows its traceback.
"""

from __future__ import annotations

from wattfold.coordinator.cli.shared.exit_codes import ExitCode


class CliError(Exception):
    """Ends the command with one line on standard error."""

    exit_code = ExitCode.REFUSED


class UnreachableError(CliError):
    """The coordinator does not answer at the address."""

    exit_code = ExitCode.UNREACHABLE


class BusyError(UnreachableError):
    """The coordinator listens, but accepts no more connections."""

    exit_code = ExitCode.BUSY


class NoAccessError(UnreachableError):
    """The account may not open the socket of the coordinator."""

    exit_code = ExitCode.NO_ACCESS


class UnknownHostError(UnreachableError):
    """The name of the host in the address is unknown."""

    exit_code = ExitCode.UNKNOWN_HOST


class TimedOutError(UnreachableError):
    """There was no connection, or no answer, in time."""

    exit_code = ExitCode.TIMED_OUT


class OtherServerError(UnreachableError):
    """Another server answers at the address."""

    exit_code = ExitCode.OTHER_SERVER


class NotFoundError(CliError):
    """The named object does not exist."""

    exit_code = ExitCode.NO_SUCH_JOB


class BadRequestError(CliError):
    """The command line asks for something that cannot be sent."""

    exit_code = ExitCode.USAGE
