"""Lets a residual PE of a charm4py program sleep until it is needed.

An idle PE of the *netlrts* layer asks for messages without pause, and so takes half of a core from
the PEs that have the objects. Slowing it by a lower priority would stall the job at every
reduction. Here it waits in the kernel for its own sockets instead: what arrives wakes it at once.
Only where no chare that can be moved is on the PE, so that those with work stay as they are.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
from collections.abc import Callable, Sequence

STILL_IDLE = 3
"""``CcdPROCESSOR_STILL_IDLE`` of Charm++ 8."""
NAP_MS_MIN = 5
"""The first wait after a message: the layer has timers of its own (repeated packets) to serve."""
NAP_MS_MAX = 500
LAYER_VARIABLE = "NETSTART"
"""Set by charmrun for processes of this layer."""

UNSERVED_NAPS = 50
"""A socket that had something to read at the begin of so many naps in a row, when the layer has
just had its turn, is taken for one that it does not read, until it has nothing to read: data may
come that fast."""

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_kept: list[object] = []
"""Charm++ keeps no reference to what it calls."""


def nap_when_idle(
    library: ctypes.CDLL, empty: Callable[[], bool], timed: Callable[[], bool] = lambda: False
) -> bool:
    """From now on this PE waits for messages asleep while ``empty`` says so; whether it can.

    To be called on the PE, once. While it is ``timed`` the program itself waits for a time on it:
    then it never waits longer than ``NAP_MS_MIN``.
    """
    if LAYER_VARIABLE not in os.environ:
        return False
    doze = Doze(network_sockets())
    if not doze.sockets:
        return False

    def idle(_user: int) -> None:
        if empty():
            doze.nap(NAP_MS_MIN if timed() else NAP_MS_MAX)

    callback = _CALLBACK(idle)
    _kept.append(callback)
    library.CcdCallOnConditionKeep.argtypes = [ctypes.c_int, _CALLBACK, ctypes.c_void_p]
    library.CcdCallOnConditionKeep(STILL_IDLE, callback, None)
    return True


class Doze:
    """Naps that end when there is something to read, of sockets that somebody reads in between."""

    def __init__(self, sockets: Sequence[int]) -> None:
        self.sockets = set(sockets)
        """Those that may end a nap."""
        self._in_a_row = dict.fromkeys(sockets, 0)
        self.next_ms = NAP_MS_MIN
        self._poll, self._poll_all = select.poll(), select.poll()
        for number in sockets:
            self._poll.register(number, select.POLLIN)
            self._poll_all.register(number, select.POLLIN)

    def nap(self, most_ms: int = NAP_MS_MAX) -> None:
        """Waits for a message; at most for twice as long as the last time, if none came then."""
        ready = {number for number, _ in self._poll_all.poll(0)}
        for number in self._in_a_row:
            self._count(number, ready=number in ready)
        ready &= self.sockets
        if not ready:
            ready = {number for number, _ in self._poll.poll(min(self.next_ms, most_ms))}
        self.next_ms = NAP_MS_MIN if ready else min(2 * self.next_ms, NAP_MS_MAX)

    def _count(self, number: int, *, ready: bool) -> None:
        self._in_a_row[number] = self._in_a_row[number] + 1 if ready else 0
        if not ready and number not in self.sockets:
            self._poll.register(number, select.POLLIN)
            self.sockets.add(number)
        elif self._in_a_row[number] == UNSERVED_NAPS:
            self._poll.unregister(number)
            self.sockets.discard(number)


def network_sockets() -> list[int]:
    """Descriptors of this process that are sockets of the Internet protocols."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            duplicate = os.dup(int(name))
        except OSError:
            continue
        with socket.socket(fileno=duplicate) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                found.append(int(name))
    return found
