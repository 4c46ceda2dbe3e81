"""Questions about the history, as sent to the process that answers them."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.adapters.door.peers import Peer

LIMIT_DEFAULT, LIMIT_MAX = 1000, 100_000
SORTS = {
    "end": "end_ms",
    "submit": "submit_ms",
    "start": "start_ms",
    "wait": "max(start_ms - submit_ms, 0)",
    "time": "iif(start_ms, end_ms - start_ms, 0)",
    "nodes": "nodes",
    "cores": "core_ms",
    "energy": "energy_mj + idle_mj + gpu_mj",
    "residual": "residual_ms",
    "given_up": "1.0 * given_up_mj / max(capped_ms, 1)",
    "gained": "1.0 * gained_mj / max(capped_ms, 1)",
    "user": "user",
    "state": "state",
}
"""Orders of a list, as expressions over its columns."""
BY = ("user", "account", "app", "queue", "day")
"""Keys of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuestion:
    """Criteria of a list. Empty values match all jobs; times are Unix milliseconds."""

    viewer: Peer
    since_ms: int = 0
    until_ms: int = 0
    user: str = ""
    app: str = ""
    queue: str = ""
    account: str = ""
    node: str = ""
    """A node of the last attempt."""
    states: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    mine: bool = False
    limit: int = LIMIT_DEFAULT
    sort: str = "end"
    ascending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuestion:
    """A report over whole days, such as 20270131; 0 = no bound."""

    viewer: Peer
    by: str
    first_day: int = 0
    last_day: int = 0
    user: str = ""
