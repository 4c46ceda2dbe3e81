"""Reader of node lists in the format of PA-HPC-SIM.

A line describes a node by fields separated by spaces: ID, cores, GPUs, MICs, KiB of memory,
reserved. Identical nodes become a class, in the order of their first lines. MICs count as GPUs of
nodes with the feature ``mic``. Nodes with other GPUs have the feature ``gpu``. The traces use these
names (`workloads.unit_traces`).
"""

from __future__ import annotations

import re
from typing import Unpack

from wattfold.simulator.engine.machines.machine import Watts
from wattfold.simulator.engine.machines.node_machine import NodeClass

_LINE = re.compile(r"\s*(\d+)((?:\s+\d+){4})\s+([01])\s*\Z")
_KIB = 1 << 10


def is_nodes_file(text: str) -> bool:
    """Whether the first nonempty line has the format of such a list."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _LINE.match(first) is not None


def node_classes(text: str, **watts: Unpack[Watts]) -> tuple[NodeClass, ...]:
    """Return the classes of nodes, all with the same powers. Raises ValueError with the line."""
    counts: dict[tuple[int, ...], int] = {}
    known: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        match = _LINE.match(line)
        if match is None:
            raise ValueError(f"line {number}: expected id, cores, GPUs, MICs, memory and 0 or 1")
        name, amounts, reserved = match.groups()
        cores, gpus, mics, memory_kib = (int(word) for word in amounts.split())
        if name in known:
            raise ValueError(f"line {number}: node {name} is listed twice")
        if reserved == "1":
            raise ValueError(f"line {number}: nodes for reservations only are not simulated")
        if gpus and mics:
            raise ValueError(f"line {number}: GPUs and MICs on one node are not simulated")
        known.add(name)
        kind = (cores, gpus, mics, memory_kib)
        counts[kind] = counts.get(kind, 0) + 1
    return tuple(
        NodeClass.of_watts(
            f"nodes-{place}" if len(counts) > 1 else "nodes",
            count,
            cores,
            memory_bytes=memory_kib * _KIB,
            gpus=gpus or mics,
            features=("gpu",) if gpus else ("mic",) if mics else (),
            **watts,
        )
        for place, ((cores, gpus, mics, memory_kib), count) in enumerate(counts.items())
    )
