"""Notifications to the service manager: ready, alive and stopping (protocol of sd_notify).

If the service manager requests it (``WatchdogSec=`` of systemd), the agent sends a sign of life
from its event loop, twice per interval. Without it, the manager kills the agent and starts another.
Does nothing for an agent without a service manager.
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
    """The service manager that started this process, according to the environment."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An abstract name is written with @; nothing else is specified.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_ns = _watchdog_ns(environment, pid)

    def ready(self) -> None:
        """Report that the agent serves."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Report that the agent stops."""
        self._tell("STOPPING=1")

    async def reassure_for_ever(self) -> None:
        """Send signs of life until cancelled. Returns immediately if none are requested."""
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
            logs.warning("service_manager_not_notified", text=text, reason=error)


def here() -> ServiceManager:
    """Return the service manager of this process."""
    return ServiceManager(os.environ, os.getpid())


def _watchdog_ns(environment: Mapping[str, str], pid: int) -> int:
    text, whose = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    # A number for another process was inherited from a watched parent.
    if not text.isdigit() or (whose and whose != str(pid)):
        return 0
    return int(text) * NS_PER_US
