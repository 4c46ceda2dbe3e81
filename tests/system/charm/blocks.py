"""A charm4py program whose blocks follow the map: works until it is told the last step, or killed.

Writes a line per change: the step, and how many blocks each PE says it holds.
"""

import sys

from charm4py import Array, Chare, Group, Reducer, charm

from wattfold.shims.charm_map import MappedChare, follow_map

BLOCKS = 16


class Block(MappedChare, Chare):
    def __init__(self):
        self.sum = 0

    def work(self, step):
        self.sum += sum(range(2000)) + step

    def total(self, callback):
        self.reduce(callback, self.sum, Reducer.sum)


class Counter(Chare):
    """Counts, on every PE, what is really there."""

    def count(self, aid):
        return len(charm.arrays[aid])


def main(args):
    steps = int(args[1])
    blocks = Array(Block, BLOCKS)
    counters = Group(Counter)
    placement = follow_map([blocks])
    print("start", 0, counters.count(blocks.aid, ret=True).get(), flush=True)
    for step in range(steps):
        blocks.work(step, awaitable=True).get()
        if placement.update():
            print("moved", step, counters.count(blocks.aid, ret=True).get(), flush=True)
    done = charm.createFuture()
    blocks.total(done)
    print("end", done.get(), flush=True)
    sys.stdout.flush()
    charm.exit()


charm.start(main)
