"""Substitute for the worker process: the same calls, pickled in the same way, in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from wattfold.coordinator.adapters.copies import replica
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success


class InPlaceWorker:
    """Worker that counts calls and bytes.

    ``die`` discards its state, as the restart of a process does.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.bytes = 0
        self.updates: list[replica.Update] = []
        self._replica: replica.Replica | None = None

    def die(self) -> None:
        self._replica = None

    @property
    def replica(self) -> replica.Replica:
        assert self._replica is not None
        return self._replica

    async def call(
        self, function: Callable[..., Any], *args: object, deadline_s: float
    ) -> CallResult:
        self.calls += 1
        message = pickle.dumps((function, args))
        self.bytes += len(message)
        called, arguments = pickle.loads(message)
        self.updates.append(arguments[0])
        others, replica._ReplicaProcess.replica = replica._ReplicaProcess.replica, self._replica
        try:
            value = pickle.loads(pickle.dumps(called(*arguments)))
        except Exception as error:  # noqa: BLE001 - as in the worker
            return Crashed(reason=repr(error), details="")
        finally:
            self._replica, replica._ReplicaProcess.replica = replica._ReplicaProcess.replica, others
        return Success(value=value)
