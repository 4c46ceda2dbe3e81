"""A charm4py program: every processing element prints its node."""

import os

from charm4py import Chare, Group, charm


class Element(Chare):
    def say(self):
        node, colour = os.environ.get("WATTFOLD_NODE_ID"), os.environ.get("COLOUR")
        print(f"pe {charm.myPe()} of {charm.numPes()} on {node} colour {colour}", flush=True)


def main(args):
    Group(Element).say(awaitable=True).get()
    charm.exit(int(args[1]) if len(args) > 1 else 0)


charm.start(main)
