"""Record of a run in a file of JSON lines, for figures and later analysis.

A line is written for every change of the ledger or of the cores held, and for every telemetry
message. It contains the time, the budget, the committed and measured power (W), and the owners of
the cores of each node.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import IO

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.coordinator")


class Recorder:
    """Appends to a file. The same record is not written twice.

    A line that cannot be written is left out, because a record must not stop the coordinator.
    """

    def __init__(self, path: Path, clock: Clock, seen: Observations) -> None:
        self._file: IO[bytes] = path.open("ab", buffering=0)
        self._failing = False
        self._clock = clock
        self._seen = seen
        self._last: dict[str, object] = {}

    def note(self, state: State) -> None:
        """Write a line if anything changed."""
        ledger = state.ledger
        picture: dict[str, object] = {
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
        if picture != self._last:
            self._last = picture
            time_s = self._clock.wall_s(self._clock.now_ns())
            self._write(json.dumps({"time_s": round(time_s, 6), **picture}).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        try:
            end = os.fstat(self._file.fileno()).st_size
            if self._file.write(data) != len(data):
                self._file.truncate(end)  # Half a line would spoil the next line.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._failing = False
        except OSError as error:
            if not self._failing:
                told = {"path": self._file.name, "reason": error.strerror}
                log.error(line("record_not_written", **told))
            self._failing = True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
