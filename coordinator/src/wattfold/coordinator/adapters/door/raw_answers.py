"""Answers of a gRPC service as serialised bytes.

The view of a large machine arrives as bytes from another process. To parse and serialise it again
would hold the loop longer than all other work for it.
"""

from __future__ import annotations

from typing import Any

import grpc

from wattfold.v1 import coordinator_pb2_grpc


def add_to_server(servicer: Any, server: Any) -> None:
    """Register the Coordinator service. Its methods may return messages or bytes."""
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, _BytesPass(server))


class _BytesPass:
    """Registration interface for the generated code. Replaces the serialisers of the handlers."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Do nothing: the generated code registers the same methods once more by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Register the methods, for older and newer versions of gRPC."""
        relaxed = {name: _relaxed(handler) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, relaxed)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_registered_method_handlers(service, relaxed)


def _relaxed(handler: Any) -> Any:
    serialise = handler.response_serializer

    def as_bytes(answer: Any) -> bytes:
        done: bytes = answer if isinstance(answer, bytes) else serialise(answer)
        return done

    return handler._replace(response_serializer=as_bytes)
