"""Tells the service manager that the agent serves, lives, and stops (the protocol of sd_notify).

A service manager that asks for it (``WatchdogSec=`` of systemd) is told half as often as it wants
that the event loop still turns; when that fails to come it kills the agent and starts another. Does
nothing for an agent that no service manager has started.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping

from wattfold.contract.units import NS_PER_US
from wattfold.nodeagent import logs

_S_PER_NS = 1e-9


class ServiceManager:
    """The one who started this process, by the environment it gave."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An abstract name is written with @; nothing else is specified.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_ns = _watchdog_ns(environment, pid)

    def ready(self) -> None:
        """The agent serves."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """The agent was told to stop."""
        self._tell("STOPPING=1")

    async def reassure_for_ever(self) -> None:
        """Says that the event loop turns until cancelled; returns at once if nobody asks."""
        if not self.watchdog_ns or not self._address:
            return
        while True:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_ns * _S_PER_NS / 2)

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                out.sendto(text.encode(), self._address)
        except OSError as error:
            logs.warning("service_manager_not_notified", text=text, why=error)


def here() -> ServiceManager:
    """That of this process."""
    return ServiceManager(os.environ, os.getpid())


def _watchdog_ns(environment: Mapping[str, str], pid: int) -> int:
    text, whose = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    # A number for another process was inherited from a parent that is watched.
    if not text.isdigit() or (whose and whose != str(pid)):
        return 0
    return int(text) * NS_PER_US
