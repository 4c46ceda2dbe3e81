"""Writes what happens to a file, one JSON line each, for figures and later study.

Every change of the ledger and of the cores held, and every telemetry message: time, budget,
committed and measured power (W), and who holds which cores of which node.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.observations import Observations
from wattfold.coordinator.core.state import State


class Recorder:
    """Appends to a file; the same picture is not written twice."""

    def __init__(self, path: Path, clock: Clock, seen: Observations) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8", buffering=1)
        self._clock = clock
        self._seen = seen
        self._last: dict[str, object] = {}

    def note(self, state: State) -> None:
        """Writes a line if anything changed."""
        ledger = state.ledger
        line: dict[str, object] = {
            "budget_w": ledger.budget_uw / 1e6,
            "committed_w": ledger.committed_uw / 1e6,
            "measured_w": self._seen.power_uw / 1e6,
            "held": {
                job.job_id: {
                    "name": job.spec.name,
                    "cores": {r.node_id: list(r.held) for r in job.ranks.values() if not r.end},
                }
                for job in state.placed()
                if job.ranks
            },
        }
        if line != self._last:
            self._last = line
            time_s = self._clock.wall_s(self._clock.now_ns())
            self._file.write(json.dumps({"time_s": round(time_s, 6), **line}) + "\n")

    def close(self) -> None:
        """Ends the file."""
        self._file.close()
