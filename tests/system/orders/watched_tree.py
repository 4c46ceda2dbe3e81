"""The power zones of a node, mounted through FUSE, with every state of their limits on record.

    python -m system.orders.watched_tree FIXTURE FOLDER RECORD

A process of its own, as hardware outlives agents. Limits change only when an agent or its guard
writes them here, so a line after each write is all that ever held. Other lines follow the energy,
which a thread reads as well, because nobody else does while a node has no agent.

A word on standard input sets the counters that agents read: ``back`` to 0, ``ahead`` by 50 kJ.

A line: CLOCK_MONOTONIC (ns), number of writes, then limit (uW) and energy (uJ) of each zone. The
limit is the higher of the long-term and the short-term limit, or -1 where the zone is switched off.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.fuse_tree import mount
from wattfold.nodeagent.emulation.machine import Machine
from wattfold.nodeagent.emulation.tree_model import TreeModel

ENERGY_S = 0.1
NAMES_KEPT_S = 3600.0
"""No zone disappears here. Most requests would ask whether the folders of a path are there."""
FREE = -1
"""Of a zone that is switched off."""
AHEAD_UJ = 50_000_000_000


class WatchedModel(TreeModel):
    """Notes what holds after each write, before the next one can begin."""

    def __init__(self, machine: Machine, record: TextIO) -> None:
        super().__init__(machine)
        self._record = record
        self._due_ns = 0
        self._zero_ns = time.monotonic_ns()
        """When the time of the model began; found by the advance that was noted soonest."""
        self._shown_uj = dict.fromkeys(self.zones, 0)
        """Of each zone, by how much its counter shows more than was counted."""
        self._note(self._zero_ns)

    def write(self, folder: str, file: str, text: str) -> None:
        try:
            super().write(folder, file, text)
        finally:
            self._note(time.monotonic_ns())

    def energy_uj(self, folder: str) -> int:
        """The counter of a zone as agents read it."""
        shown_uj = self._counted_uj(folder) + self._shown_uj[folder]
        return shown_uj % self.zones[folder].spec.energy_range_uj

    def set_counters(self, word: str) -> None:
        """Set the counters of all zones back or ahead, as a reset or a defect does."""
        for folder in self.zones:
            self._shown_uj[folder] = AHEAD_UJ if word == "ahead" else -self._counted_uj(folder)

    def advance(self, elapsed_ns: int) -> None:
        super().advance(elapsed_ns)
        first = self.now_ns == elapsed_ns
        zero_ns = time.monotonic_ns() - self.now_ns
        self._zero_ns = zero_ns if first else min(self._zero_ns, zero_ns)
        # The energy is of this moment, which may be past already on a busy machine.
        if self._zero_ns + self.now_ns >= self._due_ns:
            self._note(self._zero_ns + self.now_ns)

    def _note(self, now_ns: int) -> None:
        self._due_ns = now_ns + int(ENERGY_S * 1e9)
        limits = [self._held_uw(folder) for folder in self.zones]
        energy = [self._counted_uj(folder) for folder in self.zones]
        self._record.write(f"{now_ns} {self.writes} {' '.join(map(str, limits + energy))}\n")

    def _counted_uj(self, folder: str) -> int:
        return super().energy_uj(folder)

    def _held_uw(self, folder: str) -> int:
        long_uw, short_uw = self.enforced_uw(folder), self.burst_uw(folder)
        return FREE if long_uw is None else max(long_uw, short_uw or 0)


def read_energy(folder: Path) -> None:
    """Lets time pass for the zones, until the process ends."""
    pace, meter = threading.Event(), folder / "intel-rapl:0" / "energy_uj"
    while not pace.wait(ENERGY_S):
        with contextlib.suppress(OSError):
            meter.read_text(encoding="ascii")


def set_counters(model: WatchedModel) -> None:
    """Does what standard input says, until its end."""
    for line in sys.stdin:
        model.set_counters(line.strip())


def main() -> None:
    fixture, folder, record = sys.argv[1:]
    with open(record, "w", encoding="ascii", buffering=1) as file:
        model = WatchedModel(load_fixture(fixture).machine, file)
        threading.Thread(target=read_energy, args=(Path(folder),), daemon=True).start()
        threading.Thread(target=set_counters, args=(model,), daemon=True).start()
        mount(model, Path(folder), lambda: model.load, names_kept_s=NAMES_KEPT_S)


if __name__ == "__main__":
    main()
