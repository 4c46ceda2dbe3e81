"""Expected failures of a command, each with its exit code and one line for people.

    CliError          refused, exit 1
    ├── UnreachableError   no coordinator, exit 3
    ├── NotFoundError      no such job or profile, exit 4
    └── BadRequestError    the command line, exit 2

A bug is not among them: it shows its traceback.
"""

from __future__ import annotations

import grpc

from wattfold.coordinator.cli.shared.exit_codes import ExitCode


class CliError(Exception):
    """Ends the command with one line on standard error."""

    exit_code = ExitCode.REFUSED


class UnreachableError(CliError):
    """The coordinator does not answer at the address."""

    exit_code = ExitCode.UNREACHABLE


class NotFoundError(CliError):
    """What was named does not exist."""

    exit_code = ExitCode.NO_SUCH_JOB


class BadRequestError(CliError):
    """The command line asks for something that cannot be sent."""

    exit_code = ExitCode.USAGE


_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
}


def from_status(code: grpc.StatusCode, details: str, address: str, timeout_s: float) -> CliError:
    """The failure a gRPC status stands for, worded for people."""
    text = " ".join(details.split())
    if code is grpc.StatusCode.UNAVAILABLE:
        return UnreachableError(
            f"no coordinator at {address}; start one with `wattfold-coordinator`, "
            "or name another with --coordinator ADDRESS"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UnreachableError(
            f"the coordinator at {address} did not answer within {timeout_s:g} s; try again, "
            "or look at its log"
        )
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFoundError(text or "not found")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return CliError(
            f"the coordinator at {address} wants a token ({text or 'none was sent'}); "
            "name its file with --token-file FILE or WATTFOLD_TOKEN_FILE"
        )
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return CliError(f"not permitted: {text or 'no reason given'}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return CliError(
            f"the coordinator at {address} does not know this request; "
            "it is older than this command, update it"
        )
    if code in _REFUSALS:
        return CliError(text or f"refused ({code.name})")
    return CliError(f"the coordinator at {address} failed: {text or 'no reason'} ({code.name})")
