"""Sleep of a residual PE of a charm4py program until it is needed.

An idle PE of the *netlrts* layer polls for messages without pause, and so takes half of a core from
the PEs that have the objects. Slowing it by a lower priority would stall the job at every
reduction. Instead, it waits in the kernel for its own sockets, where an arriving message wakes it
at once. It waits only if it has no movable chare, so that PEs with work are not affected.
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
"""First wait after a message: the layer must serve its own timers (repeated packets)."""
NAP_MS_MAX = 500
LAYER_VARIABLE = "NETSTART"
"""Set by charmrun for processes of this layer."""

UNSERVED_NAPS = 50
"""Number of consecutive naps after which a socket counts as unread by the layer.

The socket must be readable at the start of each of these naps, although the layer has just had its
turn. Data may arrive that fast, so a socket without data counts as read again.
"""

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_kept: list[object] = []
"""Charm++ keeps no reference to its callbacks."""


def nap_when_idle(
    library: ctypes.CDLL, empty: Callable[[], bool], timed: Callable[[], bool] = lambda: False
) -> bool:
    """Let this PE sleep while ``empty`` returns True and no message arrives; return whether it can.

    Call it once, on the PE. While ``timed`` returns True, the program itself waits for a time on
    it, so a wait never exceeds ``NAP_MS_MIN``.
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
    """Naps that end if a socket has data; another component reads the sockets between naps."""

    def __init__(self, sockets: Sequence[int]) -> None:
        self.sockets = set(sockets)
        """Sockets that may end a nap."""
        self._in_a_row = dict.fromkeys(sockets, 0)
        self.next_ms = NAP_MS_MIN
        self._poll, self._poll_all = select.poll(), select.poll()
        for number in sockets:
            self._poll.register(number, select.POLLIN)
            self._poll_all.register(number, select.POLLIN)

    def nap(self, most_ms: int = NAP_MS_MAX) -> None:
        """Wait for a message, at most twice as long as the last time if none came then."""
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
    """Return descriptors of this process that are sockets of the Internet protocols."""
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
