"""What the power service needs of the world outside: a guard, a clock, records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from wattfold.contract.units import NS_PER_S


class LeaseGuard(Protocol):
    """Ends the lease if this agent is killed. Outside this process."""

    def hold_until(self, deadline_ns: int) -> None:
        """The lease ends then, monotonic clock. Raises WrongState if nobody would end it."""
        ...

    def lapsed(self) -> None:
        """The lease has ended and the agent has seen to it."""
        ...

    def refresh(self) -> None:
        """What must be written if the agent is killed may have changed."""
        ...


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None:
        """It will not be called."""
        ...


class Clock(Protocol):
    """Monotonic time and calls at a later one."""

    def now_ns(self) -> int:
        """Nanoseconds since some moment in the past."""
        ...

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Timer:
        """Calls back once, not before that time."""
        ...


class LoopClock:
    """The monotonic clock, and timers of the running event loop."""

    def now_ns(self) -> int:
        """Nanoseconds of the monotonic clock."""
        return time.monotonic_ns()

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Timer:
        """Calls back once, in the event loop."""
        return asyncio.get_running_loop().call_later(delay_ns / NS_PER_S, what)


class Records(Protocol):
    """Records that survive the agent."""

    def read(self, name: str) -> dict[str, Any] | None:
        """A record, None if there is none or it is damaged."""
        ...

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Replaces a record, whole or not at all. Raises Refused."""
        ...

    def remove(self, name: str) -> None:
        """Removes a record if there is one."""
        ...
