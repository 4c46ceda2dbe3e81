"""Request of operators to read the configuration again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.reloading import Reloaded
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc


class ReloadRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service for its configuration. The start sets ``reload``."""

    reload: Callable[[], Awaitable[Reloaded]] | None = None

    async def Reload(self, _request: pb.ReloadRequest, context: Any) -> pb.ReloadResponse:
        """Read the configuration again, and return what changed and what needs a restart."""
        reload = self.reload
        if reload is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the coordinator is still starting")
            raise AssertionError("abort() raises")
        try:
            done = await reload()
        except ConfigError as error:
            text = f"nothing was changed: {error}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        return pb.ReloadResponse(
            changed=done.changed,
            needs_restart=done.needs_restart,
            nodes=len(done.config.nodes),
            queues=len(done.config.queues),
            policy=done.config.policy.name,
        )
