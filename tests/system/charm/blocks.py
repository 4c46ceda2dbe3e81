"""A charm4py program whose blocks follow the map, until the file named in its argument exists.

It prints a line per change: the step, and the number of blocks on every PE. At the end it prints
the number of steps and the sum of all blocks. While a file of that name with ".hold" exists, it
neither answers nor reaches its next step; it prints when that begins.
"""

import os
import select

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
    """Counts the blocks that are really on every PE."""

    def count(self, aid):
        return len(charm.arrays[aid])


def hold(gate):
    print("held", flush=True)
    while os.path.exists(gate):
        select.select([], [], [], 0.005)


def main(args):
    blocks = Array(Block, BLOCKS)
    counters = Group(Counter)
    placement = follow_map([blocks])
    print("start", 0, counters.count(blocks.aid, ret=True).get(), flush=True)
    step = 0
    while not os.path.exists(args[1]):
        blocks.work(step, awaitable=True).get()
        step += 1
        if os.path.exists(args[1] + ".hold"):
            hold(args[1] + ".hold")
        if placement.update():
            print("moved", step, counters.count(blocks.aid, ret=True).get(), flush=True)
    done = charm.createFuture()
    blocks.total(done)
    print("end", step, done.get(), flush=True)
    charm.exit()


charm.start(main)
