"""The client API over a real socket, on a core without agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc.aio
from unit.adapters.in_place import InPlaceWorker

from wattfold.coordinator.adapters.asking import ASKING, Asking
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.outlook_views import ViewInputs
from wattfold.coordinator.adapters.copies.picture_feed import PictureFeed
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, whole
from wattfold.coordinator.adapters.door import raw_answers
from wattfold.coordinator.adapters.door.api import CoordinatorApi
from wattfold.coordinator.adapters.door.peers import BY_SOCKET, own_account
from wattfold.coordinator.adapters.emergencies import Emergencies
from wattfold.coordinator.adapters.history.desk import HistoryDesk
from wattfold.coordinator.adapters.history.recorder import KEEP_DAYS, HistoryRecorder
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.emergency import EmergencyOrder
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.v1 import coordinator_pb2_grpc

BUDGET_UW = 1_000_000_000
ORDER = EmergencyOrder(users=("protected",))
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
        """Do nothing: the test posts the answers itself."""


class AsOwnAccount(grpc.aio.ServerInterceptor):
    """Interceptor that assigns every call to the account of the test, because no peer socket runs
    here.
    """

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
    """Server and client of the API.

    ``stub`` is the client stub. The worker runs in this process, so that its work can be counted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix:{folder}/api.sock"
        self.interceptors: list[grpc.aio.ServerInterceptor] = [AsOwnAccount()]
        self.journal = Journal(folder / "j")
        self.core = CoordinatorCore(BUDGET_UW)
        self.service = Service(self.core, self.journal, Clock())
        self.service.performers = dict.fromkeys(KINDS, Nobody())
        self.service.start_epoch(9 * S, 2 * S)
        self.seen = Observations()
        self.worker = InPlaceWorker()
        self.feed = ReplicaFeed(self.worker, lambda: self.core.state, whole)
        self.service.followers.append(self.feed.note)
        setting = ViewInputs(clock=self.service.clock, policy=FifoEasy())
        self.pictures = PictureFeed(self.feed, self.seen, lambda: setting)
        path = folder / "history.sqlite"
        self.recorder = HistoryRecorder(
            path,
            "one journal",
            self.service.clock,
            lambda: self.core.state,
            lambda: setting.policy.name,
            KEEP_DAYS,
        )
        self.service.followers.append(self.recorder.note)
        self.api = CoordinatorApi(
            self.service,
            self.seen,
            self.pictures,
            HistoryDesk(InPlaceWorker(), path, self.recorder),
            lambda: S,
            Emergencies(self.service, ORDER, lambda: S, 2 * S, S),
            TimeLimits(),
            lambda: setting.policy.name,
        )

    async def __aenter__(self) -> ApiSite:
        self.recorder.start()
        self._running = asyncio.create_task(self.service.run())
        self._server = grpc.aio.server(interceptors=self.interceptors)
        raw_answers.add_to_server(self.api, self._server)
        port = self._server.add_insecure_port(self.address)
        await self._server.start()
        if not self.address.startswith("unix:"):
            self.address = f"{self.address.rpartition(':')[0]}:{port}"
        self._channel = grpc.aio.insecure_channel(self.address)
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
        await self.recorder.close()
        self.journal.close()
