"""Test program for charm4py: blocks of data and work that follow the processor map.

    python -m wattfold.shims.charm_start --charm4py charm_load.py [OPTIONS]

With ``--steps`` 0 it runs until the file of ``--stop`` exists. Every block works in every step, and
a step ends with a reduction over all PEs, as in an iterative solver. At most every tenth of a
second, it prints the seconds of the monotonic clock and the number of steps (``at 12.345 678``). It
also prints a line after each move of blocks. At the end it prints a sum that does not depend on
their placement.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

from charm4py import Array, Chare, Group, Reducer, charm

from wattfold.shims.charm_map import MappedChare, follow_map

SAID_EVERY_S = 0.1
IDLE_LOOK_S = 0.2


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of a command line. Unknown options end the program."""
    parser = argparse.ArgumentParser(
        prog="charm_load.py",
        description="Run blocks of data and work that follow the processor map of a job.",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help="Print this help.")
    for name, default, text in (
        ("--steps", 0, "Number of steps; 0 = until the stop file exists. Default: 0."),
        ("--blocks", 16, "Number of blocks. Default: 16."),
        ("--bytes", 4096, "Size of a block in bytes. Default: 4096."),
        ("--work", 2000, "Additions per block and step. Default: 2000."),
    ):
        parser.add_argument(name, type=int, default=default, metavar="N", help=text)
    parser.add_argument(
        "--pause",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="Pause after a step in seconds. Default: 0.",
    )
    parser.add_argument(
        "--stop", default="", metavar="FILE", help="File that ends the program. Default: none."
    )
    parser.add_argument(
        "--idle",
        default="",
        metavar="FILE",
        help="File that pauses the program while it exists. Default: none.",
    )
    return parser.parse_args(arguments)


class Block(MappedChare, Chare):
    """Data that moves with the block, and work."""

    def __init__(self, size: int) -> None:
        # Random, because equal data would be packed only once.
        self.data = os.urandom(size)
        self.sum = 0

    def step(self, done: Any, work: int, step: int) -> None:
        """Make ``work`` additions, and contribute to the reduction that ends the step."""
        self.sum += sum(range(work)) + step
        self.reduce(done)

    def total(self, done: Any) -> None:
        """Contribute to the result."""
        self.reduce(done, self.sum, Reducer.sum)


class Counter(Chare):
    """Counter, on every PE, of the chares that are there."""

    def count(self, array: int) -> int:
        """Return the number of chares of an array on this PE."""
        return len(charm.arrays[array])


def main(args: list[str]) -> None:
    """Run the main chare."""
    given = options_of(args[1:])
    blocks = Array(Block, given.blocks, args=[given.bytes])
    counters = Group(Counter)
    placement = follow_map([blocks], given.steps)
    said_s, step = 0.0, 0

    def say(word: str) -> None:
        counts = counters.count(blocks.aid, ret=True).get()
        print(f"{word} {time.monotonic():.3f} {counts}", flush=True)

    say("blocks")
    while step < given.steps if given.steps else not os.path.exists(given.stop):
        while given.idle and os.path.exists(given.idle):
            charm.sleep(IDLE_LOOK_S)
        done = charm.createFuture()
        blocks.step(done, given.work, step)
        done.get()
        step += 1
        if placement.update():
            say("moved")
        now_s = time.monotonic()
        if now_s - said_s >= SAID_EVERY_S:
            said_s = now_s
            print(f"at {now_s:.3f} {step}", flush=True)
        if given.pause:
            charm.sleep(given.pause)
    print(f"at {time.monotonic():.3f} {step}", flush=True)
    done = charm.createFuture()
    blocks.total(done)
    print(f"end {step} {done.get()}", flush=True)
    charm.exit()


if __name__ == "__main__":
    charm.start(main)
