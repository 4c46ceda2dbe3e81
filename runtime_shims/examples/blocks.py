#!/usr/bin/env python3
"""Heat in a rod, by Jacobi's method, in blocks that follow the processor map (charm4py).

    python -m wattfold.shims.charm_start --charm4py blocks.py [STEPS [BLOCKS [CELLS]]]
    wattfold submit --cores 1-2 --mode map -- python -m wattfold.shims.charm_start --charm4py \\
        blocks.py 400

In every step, the blocks exchange their borders and compute their cells from the neighboring cells.
After a step they may move. The program prints a line after each move (the step, and the number of
blocks on every PE), and at the end the heat in the rod and a checksum. The results do not depend on
the number of PEs over time, because all numbers are integers.
"""

import time

from charm4py import Array, Chare, Group, Reducer, charm

from wattfold.shims.charm_map import MappedChare, follow_map

STEPS, BLOCKS, CELLS = 400, 16, 12_000
HOT = 1 << 40


class Block(MappedChare, Chare):
    """Some cells of the rod. Its attributes move with it."""

    def __init__(self, blocks, cells):
        self.blocks = blocks
        self.cells = [0] * cells
        if self.thisIndex[0] == blocks // 2:
            self.cells[cells // 2] = HOT

    def borders(self):
        """Return its outermost cells."""
        return self.cells[0], self.cells[-1]

    def step(self, borders):
        """Let every cell keep half of its heat and give a quarter to each neighbor."""
        here = self.thisIndex[0]
        left = borders[here - 1][1] if here else 0
        right = borders[here + 1][0] if here + 1 < self.blocks else 0
        old = [left, *self.cells, right]
        self.cells = [
            (a >> 2) + b - 2 * (b >> 2) + (c >> 2)
            for a, b, c in zip(old, old[1:], old[2:], strict=False)
        ]

    def sums(self, done):
        """Contribute its heat and its position to the sums."""
        first = self.thisIndex[0] * len(self.cells)
        heat = sum(self.cells)
        where = sum((first + at) * value for at, value in enumerate(self.cells) if value)
        self.reduce(done, [heat, where % 1_000_000_007], Reducer.sum)


class Counter(Chare):
    """Counter, on every PE, of the chares that are there."""

    def count(self, array):
        return len(charm.arrays[array])


def main(args):
    given = [int(text) for text in args[1:4]]
    steps, blocks, cells = given + [STEPS, BLOCKS, CELLS][len(given) :]
    rod = Array(Block, blocks, args=[blocks, cells])
    counters = Group(Counter)
    placement = follow_map([rod], steps)
    began = time.monotonic()

    def tell(word, step):
        counts = counters.count(rod.aid, ret=True).get()
        print(f"{time.monotonic() - began:6.2f} s  step {step:4d}  {word} {counts}", flush=True)

    tell("blocks", 0)
    for step in range(steps):
        rod.step(rod.borders(ret=True).get(), awaitable=True).get()
        if placement.update():
            tell("moved to", step + 1)
    done = charm.createFuture()
    rod.sums(done)
    heat, where = done.get()
    tell("blocks", steps)
    print(f"heat {heat} of {HOT}, checksum {where % 1_000_000_007}", flush=True)
    charm.exit()


charm.start(main)
