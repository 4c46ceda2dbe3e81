"""The service people use over a real socket, on a core without agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc.aio
from unit.adapters.in_place import InPlaceWorker

from wattfold.coordinator.adapters import raw_answers
from wattfold.coordinator.adapters.api import CoordinatorApi
from wattfold.coordinator.adapters.asking import ASKING, Asking
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import Journal
from wattfold.coordinator.adapters.observations import Observations
from wattfold.coordinator.adapters.peers import BY_SOCKET, own_account
from wattfold.coordinator.adapters.picture_feed import PictureFeed
from wattfold.coordinator.adapters.pictures import Setting
from wattfold.coordinator.adapters.replica_feed import ReplicaFeed, whole
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.adapters.submissions import TimeLimits
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.policies.fifo_easy import FifoEasy
from wattfold.v1 import coordinator_pb2_grpc

BUDGET_UW = 1_000_000_000
S = 1_000_000_000
KINDS = (
    act.SetCaps,
    act.SetMask,
    act.Launch,
    act.Terminate,
    act.ForgetProcess,
    act.RenewLease,
    act.Solve,
)


class Nobody:
    def perform(self, action: act.Action) -> None:
        """The test sends the answers itself."""


class AsOwnAccount(grpc.aio.ServerInterceptor):
    """Every call comes from the account of the test: there is no door."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        own = replace(own_account(), address=BY_SOCKET)

        async def one(request: Any, context: Any) -> Any:
            ASKING.set(Asking(peer=own, entry=None))
            return await handler.unary_unary(request, context)

        async def many(request: Any, context: Any) -> AsyncIterator[Any]:
            ASKING.set(Asking(peer=own, entry=None))
            async for answer in handler.unary_stream(request, context):
                yield answer

        if handler.unary_unary is not None:
            return handler._replace(unary_unary=one)
        return handler._replace(unary_stream=many)


class ApiSite:
    """``stub`` is a client's. The worker is in place, so that its work can be counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder / "j")
        self.core = CoordinatorCore(BUDGET_UW)
        self.service = Service(self.core, self.journal, Clock())
        self.service.performers = dict.fromkeys(KINDS, Nobody())
        self.service.start_epoch(9 * S, 2 * S)
        self.seen = Observations()
        self.worker = InPlaceWorker()
        feed = ReplicaFeed(self.worker, lambda: self.core.state, whole)
        self.service.followers.append(feed.note)
        setting = Setting(clock=self.service.clock, policy=FifoEasy())
        self.pictures = PictureFeed(feed, self.seen, lambda: setting)
        self.api = CoordinatorApi(self.service, self.seen, self.pictures, lambda: S, TimeLimits())

    async def __aenter__(self) -> ApiSite:
        self._running = asyncio.create_task(self.service.run())
        self._server = grpc.aio.server(interceptors=[AsOwnAccount()])
        raw_answers.add_to_server(self.api, self._server)
        address = f"unix:{self.folder}/api.sock"
        self._server.add_insecure_port(address)
        await self._server.start()
        self._channel = grpc.aio.insecure_channel(address)
        stub: Any = coordinator_pb2_grpc.CoordinatorStub
        self.stub: Any = stub(self._channel)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()
        await self._server.stop(0)
        await self.pictures.close()
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        self.journal.close()
