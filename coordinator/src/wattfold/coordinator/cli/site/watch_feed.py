"""Threads that feed `watch`: snapshots from the coordinator, keys from the terminal.

Both put events into one queue, so that only one thread draws the screen.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import select
import termios
import threading
import tty
from collections.abc import Iterator
from dataclasses import dataclass

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError, UnreachableError
from wattfold.v1 import coordinator_pb2 as pb

ESCAPE = b"\x1b"
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)")
"""Arrow keys, function keys and similar sequences, but not Escape alone (ECMA-48)."""
SEQUENCE_S = 0.05
"""Time within which the rest of a key of several bytes arrives; Escape alone has none."""
RETRY_S = 1.0
QUEUE_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ReceivedView:
    """A received snapshot."""

    view: pb.ClusterView


@dataclass(frozen=True, slots=True)
class Lost:
    """No snapshots arrive at the moment."""

    reason: str


@dataclass(frozen=True, slots=True)
class FeedEnded:
    """No more snapshots will arrive."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Key:
    """A pressed key."""

    key: str


Event = ReceivedView | Lost | FeedEnded | Key
Events = queue.Queue[Event]


class ViewFeed:
    """Reader of the stream, which reconnects after a loss of the coordinator."""

    def __init__(self, client: CoordinatorClient, interval_ns: int, events: Events) -> None:
        self._client = client
        self._interval_ns = interval_ns
        self._events = events
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="views", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, together with the connection of the client."""
        self._stop.set()
        self._client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for view in self._client.watch(self._interval_ns):
                    self._put(ReceivedView(view))
                self._put(Lost("the coordinator ended the stream"))
            except UnreachableError:
                self._put(Lost("the coordinator does not answer"))
            except CliError as error:
                self._put(FeedEnded(error))
                return
            except Exception as error:  # noqa: BLE001 - shown by the thread that draws
                self._put(FeedEnded(error))
                return
            self._stop.wait(RETRY_S)

    def _put(self, event: Event) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._events.put(event, timeout=0.2)
                return


@contextlib.contextmanager
def keys_from_terminal(descriptor: int, events: Events) -> Iterator[None]:
    """Read single keys without echo within the block, then restore the terminal."""
    saved = termios.tcgetattr(descriptor)
    wake_read, wake_write = os.pipe()
    thread = threading.Thread(
        target=_read_keys, args=(descriptor, wake_read, events), name="keys", daemon=True
    )
    try:
        tty.setcbreak(descriptor)
        thread.start()
        yield
    finally:
        os.close(wake_write)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)
        thread.join(timeout=1.0)
        os.close(wake_read)


def _read_keys(descriptor: int, wake: int, events: Events) -> None:
    while True:
        ready, _, _ = select.select([descriptor, wake], [], [])
        if wake in ready:
            return
        pressed = os.read(descriptor, 64)
        if pressed == ESCAPE and select.select([descriptor], [], [], SEQUENCE_S)[0]:
            # An arrow or another key of several bytes that arrived in two parts.
            pressed += os.read(descriptor, 64)
        if not pressed:
            return
        # A full queue means that the screen is behind; a lost key press then does no harm.
        with contextlib.suppress(queue.Full):
            for key in _SEQUENCE.sub(b"", pressed).decode("utf-8", "replace"):
                events.put_nowait(Key(key))
