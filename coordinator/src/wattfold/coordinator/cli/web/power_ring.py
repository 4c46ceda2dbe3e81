"""Power of the last 24 hours, in bins of ten seconds.

A bin keeps the highest measured power and the last values of everything else. The ring lives as
long as its process.
"""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Mapping

from wattfold.coordinator.cli.web.causes import CAUSES

BIN_S = 10
HOURS = 24
COLUMNS = ("time", "budget", "measured", *CAUSES)
"""``time`` is in seconds since the origin of the ring; all others are in watts."""

Sample = tuple[float, ...]


class PowerRing:
    """The samples in order of time."""

    def __init__(self, hours: float = HOURS) -> None:
        self._samples: deque[Sample] = deque(maxlen=max(round(hours * 3600 / BIN_S), 1))
        self.origin_s = 0
        """Unix time of the first bin. Offsets to it fit into 32-bit floating-point numbers."""

    def add(
        self, time_s: float, budget_w: float, measured_w: float, causes: Mapping[str, float]
    ) -> Sample:
        """Add a snapshot and return its bin. A snapshot of an earlier bin changes the last bin."""
        bin_s = int(time_s) // BIN_S * BIN_S
        if not self._samples:
            self.origin_s = bin_s
        offset_s = float(bin_s - self.origin_s)
        if self._samples and offset_s <= self._samples[-1][0]:
            offset_s, _, before_w, *_ = self._samples.pop()
            measured_w = max(measured_w, before_w)
        sample = (offset_s, budget_w, measured_w, *(causes[c] for c in CAUSES))
        self._samples.append(sample)
        return sample

    def packed(self) -> bytes:
        """Return all samples, one after the other, as 32-bit floats in little-endian order."""
        values = array.array("f")
        for sample in self._samples:
            values.extend(sample)
        if array.array("H", [1]).tobytes() != b"\x01\x00":
            values.byteswap()
        return values.tobytes()
