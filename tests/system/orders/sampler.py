"""Reads the zones of all nodes from outside, 100 times a second, and judges nothing.

A process of its own, so that neither the trial nor a part of the site can hold it up. A sample that
took long may join an old limit with a new one: it is read again. As registers keep what they had
while a file is being written, a file that cannot be read counts with what it held before.

    python sampler.py OUT ZONE_FOLDER...        until its standard input ends

A line: time of its begin (CLOCK_MONOTONIC, ns), then limit (uW) and energy (uJ) of each zone.
"""

from __future__ import annotations

import os
import select
import sys
import time

PERIOD_NS = 10_000_000
TORN_NS = 20_000_000
"""Shorter than any averaging window: nothing is raised so soon after something was lowered."""
LIMIT, ENERGY = "constraint_0_power_limit_uw", "energy_uj"


def number(path: str, before: int) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return before


def sample(paths: list[str], before: list[int]) -> tuple[int, list[int]]:
    """All values, read within a time in which nothing can be lowered here and raised there."""
    while True:
        begun_ns = time.monotonic_ns()
        found = [number(path, old) for path, old in zip(paths, before, strict=True)]
        if time.monotonic_ns() - begun_ns <= TORN_NS:
            return begun_ns, found


def main() -> None:
    out, *zones = sys.argv[1:]
    # The limits next to each other in time.
    paths = [os.path.join(zone, name) for name in (LIMIT, ENERGY) for zone in zones]
    values = [0] * len(paths)
    due_ns = time.monotonic_ns()
    with open(out, "w", encoding="ascii") as file:
        while True:
            at_ns, values = sample(paths, values)
            file.write(f"{at_ns} {' '.join(map(str, values))}\n")
            due_ns = max(due_ns + PERIOD_NS, at_ns)
            wait_s = max(due_ns - time.monotonic_ns(), 0) / 1e9
            if select.select([0], [], [], wait_s)[0]:
                return


if __name__ == "__main__":
    main()
