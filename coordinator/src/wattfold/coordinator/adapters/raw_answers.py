"""Lets a gRPC service answer with bytes that are serialised already.

A picture of a large machine comes as bytes from another process. Read into a message and written
again it would hold the loop for longer than everything else about it.
"""

from __future__ import annotations

from typing import Any

import grpc

from wattfold.v1 import coordinator_pb2_grpc


def add_to_server(servicer: Any, server: Any) -> None:
    """Registers the Coordinator service; its methods may return messages or bytes."""
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, _BytesPass(server))


class _BytesPass:
    """What the generated code registers with: hands the handlers on with another serialiser."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """The same methods come once more by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Registers them, in the way of older and newer versions of gRPC."""
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
