"""External ports of the power service: a guard, a clock and records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from wattfold.contract.units import NS_PER_S


class LeaseGuard(Protocol):
    """Ends the lease if this agent is killed. It is outside this process."""

    async def hold_until(self, deadline_ns: int) -> None:
        """Set the end of the lease, monotonic clock, and wait until it is certain to end then.

        Raises WrongState if it is not, or if `lapsed` is called meanwhile.
        """
        ...

    def lapsed(self) -> None:
        """Record that the agent has ended the lease itself."""
        ...

    def refresh(self) -> None:
        """Update the writes to perform if the agent is killed."""
        ...


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


class Clock(Protocol):
    """Monotonic time, and delayed calls."""

    def now_ns(self) -> int:
        """Return nanoseconds since a fixed moment in the past."""
        ...

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Timer:
        """Call back once, after this time or later."""
        ...


class LoopClock:
    """The monotonic clock, and timers of the running event loop."""

    now_ns = staticmethod(time.monotonic_ns)
    """Return nanoseconds of the monotonic clock."""

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Timer:
        """Call back once, in the event loop."""
        return asyncio.get_running_loop().call_later(delay_ns / NS_PER_S, what)


class Records(Protocol):
    """Records that survive the agent."""

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record; None if there is none or it is damaged."""
        ...

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Replace a record, completely or not at all. Raises Refused."""
        ...

    def remove(self, name: str) -> None:
        """Remove a record if there is one."""
        ...
