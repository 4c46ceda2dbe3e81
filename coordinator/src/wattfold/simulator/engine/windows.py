"""Times at which nodes of a machine are out of use, from the windows of its description."""

from __future__ import annotations

from wattfold.simulator.engine.machines.node_machine import NodeMachine


class NodeWindows:
    """Windows of numbered nodes in time of the log."""

    def __init__(self, machine: NodeMachine, start_ns: int) -> None:
        first_of, number = {}, 0
        for one in machine.classes:
            first_of[one.name] = number
            number += one.count
        self.spans: list[tuple[int, int, range]] = []
        """Begin, end and nodes of each."""
        self._on: dict[int, list[tuple[int, int]]] = {}
        for window in machine.windows:
            begin = first_of[window.class_name] + window.first
            nodes = range(begin, begin + window.count)
            span = start_ns + window.start_ns, start_ns + window.end_ns
            self.spans.append((*span, nodes))
            for node in nodes:
                self._on.setdefault(node, []).append(span)

    def passed(self, now_ns: int) -> tuple[list[int], list[int]]:
        """Return the nodes that go out of use now, and those that return to use."""
        opened = {node for start, _, nodes in self.spans if start == now_ns for node in nodes}
        closed = {node for _, end, nodes in self.spans if end == now_ns for node in nodes}
        still = {node for node in closed if self._in_one(node, now_ns)}
        return sorted(opened), sorted(closed - still)

    def _in_one(self, node: int, now_ns: int) -> bool:
        return any(start <= now_ns < end for start, end in self._on[node])
