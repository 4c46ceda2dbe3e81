"""The failure that a gRPC status of the coordinator stands for."""

from __future__ import annotations

import grpc

from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError, OtherServerError

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
}

_NOT_GRPC = "Received http2 header"
"""Start of gRPC's text for an HTTP/2 server without gRPC."""


def failure_of_status(code: grpc.StatusCode, text: str, address: str) -> CliError:
    """Return the failure for a gRPC status, worded for people."""
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFoundError(text or "not found")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return CliError(
            f"the coordinator at {address} requires a token ({text or 'none was sent'}); "
            "give its file with --token-file FILE or WATTFOLD_TOKEN_FILE"
        )
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return CliError(f"not permitted: {text or 'no reason given'}")
    if code is grpc.StatusCode.UNIMPLEMENTED and text.startswith(_NOT_GRPC):
        return OtherServerError(
            f"the server at {address} is no coordinator ({text}); give the address of the "
            "coordinator with --coordinator ADDRESS"
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return CliError(
            f"the coordinator at {address} does not support this request; "
            "it is older than this command: update the coordinator"
        )
    if code in _REFUSALS:
        return CliError(text or f"refused ({code.name})")
    return CliError(
        f"the coordinator at {address} failed: {text or 'no reason given'} ({code.name})"
    )
