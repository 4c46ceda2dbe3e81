#!/usr/bin/env python3
"""Heat in a rod, by Jacobi's method, in blocks that follow the processor map (charm4py).

    python -m wattfold.shims.charm_start --charm4py blocks.py [STEPS [BLOCKS [CELLS]]]
    wattfold submit --cores 1-2 --mode map -- python -m wattfold.shims.charm_start --charm4py \\
        blocks.py 400

Every block works out its cells from their neighbours, the blocks exchange their borders, and after
each step they may move. Prints a line whenever they have moved (the step, and how many blocks are
on every PE), and at the end the heat in the rod. That and the checksum do not depend on how many
PEs there were, nor when: all numbers are whole.
"""

import time

from charm4py import Array, Chare, Group, Reducer, charm

from wattfold.shims.charm_map import MappedChare, follow_map

STEPS, BLOCKS, CELLS = 400, 16, 12_000
HOT = 1 << 40


class Block(MappedChare, Chare):
    """Some cells of the rod; what it has is all it takes along."""

    def __init__(self, blocks, cells):
        self.blocks = blocks
        self.cells = [0] * cells
        if self.thisIndex[0] == blocks // 2:
            self.cells[cells // 2] = HOT

    def borders(self):
        """Its outermost cells."""
        return self.cells[0], self.cells[-1]

    def step(self, borders):
        """Every cell keeps half of its heat and gives a quarter to each neighbour."""
        here = self.thisIndex[0]
        left = borders[here - 1][1] if here else 0
        right = borders[here + 1][0] if here + 1 < self.blocks else 0
        old = [left, *self.cells, right]
        self.cells = [
            (a >> 2) + b - 2 * (b >> 2) + (c >> 2)
            for a, b, c in zip(old, old[1:], old[2:], strict=False)
        ]

    def sums(self, done):
        """Adds up its heat, and where it is."""
        first = self.thisIndex[0] * len(self.cells)
        heat = sum(self.cells)
        where = sum((first + at) * value for at, value in enumerate(self.cells) if value)
        self.reduce(done, [heat, where % 1_000_000_007], Reducer.sum)


class Counter(Chare):
    """Counts, on every PE, what is really there."""

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
