"""Limits of the public socket: number and rate of the connections of an account.

They are checked before anything is created for a connection, so that an account that connects in a
loop costs only the accept and the close. Some connections are reserved for operators, who have no
rate limit.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from wattfold.contract.token_bucket import TokenBucket

CONNECTIONS_MAX = 1024
CONNECTIONS_MAX_OF_ONE = 512
KEPT_FOR_OPERATORS = 64
"""Connections that ordinary accounts cannot use, so that operators can always stop a flood."""
RATE_PER_S, BURST = 50, 512
"""New connections of one account. A command needs one; a script runs about ten commands a second.
"""
ACCOUNTS_MAX = 1_000
"""Maximum number of accounts with a remembered rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The account at the other end of a connection."""

    uid: int
    in_group: bool

    @property
    def operator(self) -> bool:
        """Whether the caller is an operator, as in `peers.Peer`."""
        return self.in_group or self.uid in (0, os.geteuid())


class DoorLimits:
    """The connections of all accounts."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._of_uid: Counter[int] = Counter()
        self._total = 0
        self._rates: dict[int, TokenBucket] = {}

    def refusal(self, caller: Caller) -> str:
        """Count a connection, or return why it is refused."""
        if not (caller.operator or self._rate_of(caller.uid).take(self._now_ns())):
            return f"more than {RATE_PER_S} connections per second"
        most = CONNECTIONS_MAX - (0 if caller.operator else KEPT_FOR_OPERATORS)
        if self._total >= most or self._of_uid[caller.uid] >= CONNECTIONS_MAX_OF_ONE:
            return "too many connections"
        self._of_uid[caller.uid] += 1
        self._total += 1
        return ""

    def leave(self, caller: Caller) -> None:
        """Record the end of a counted connection."""
        self._of_uid[caller.uid] -= 1
        self._total -= 1

    def _rate_of(self, uid: int) -> TokenBucket:
        rate = self._rates.get(uid)
        if rate is None:
            if len(self._rates) >= ACCOUNTS_MAX:
                # Drop the oldest record. That account begins with a full bucket if it comes back.
                del self._rates[next(iter(self._rates))]
            rate = self._rates[uid] = TokenBucket(rate_per_s=RATE_PER_S, burst=BURST)
        return rate
