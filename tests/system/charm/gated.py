"""A charm4py program that reaches its next step only once the file named to it exists."""

import os
import time

from charm4py import Array, Chare, Group, charm

from wattfold.shims.charm_map import MappedChare, follow_map


class Block(MappedChare, Chare):
    def work(self):
        """Nearly nothing."""


class Counter(Chare):
    def count(self, array):
        return len(charm.arrays[array])


def main(args):
    blocks = Array(Block, 8)
    counters = Group(Counter)
    placement = follow_map([blocks])
    print("up", flush=True)
    # PE 0 answers requests between these, but never reaches a step.
    while not os.path.exists(args[1]):
        blocks.work(awaitable=True).get()
    print("gate open", time.monotonic(), flush=True)
    while not os.path.exists(args[1] + ".end"):
        blocks.work(awaitable=True).get()
        if placement.update():
            print("moved", counters.count(blocks.aid, ret=True).get(), flush=True)
    charm.exit()


charm.start(main)
