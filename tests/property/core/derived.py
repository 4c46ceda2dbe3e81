"""Derived data of a state, to compare incremental updates with a loaded state."""

from __future__ import annotations

import copy
from typing import Any

from unit.core.stage import CHECKED

from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.state.state import State

NEVER_NS = 10**18


def told(state: State) -> dict[str, Any]:
    """Return all derived data of a state. Clears the due entries."""
    index, sums = state.index, state.cap_sums
    nodes = sorted(state.nodes, key=index.node_order)
    with_caps = sums.in_order(nodes, index.node_order)
    return {
        "open": list(index.open),
        "ended": sorted(index.ended, key=lambda job_id: (state.jobs[job_id].ended_ns, job_id)),
        "placed": [job.job_id for job in index.placed()],
        "on nodes": {node: [job.job_id for job in index.on_node(node)] for node in nodes},
        "nodes": nodes,
        "unadmitted": set(index.unadmitted),
        "retired": set(index.retired),
        "leaving": set(index.leaving),
        "least": index.fixed_uw,
        "keys": (index.key_of, set(index.spent_keys)),
        "limits": [job.job_id for job in index.take_over_limit(NEVER_NS)],
        "due": due(state),
        "committed": state.ledger.committed_uw,
        "outside": state.ledger.outside_uw,
        "settling": state.ledger.next_settling_ns(0),
        "order of caps": with_caps,
        "caps": [sums.caps(spec) for n in with_caps if (spec := state.nodes[n].spec)],
    }


def due(state: State) -> list[tuple[int, set[str]]]:
    """Return the nodes that are due at each time."""
    index, found = state.index, []
    index.touched.nodes.clear()
    while (at_ns := index.next_due_ns()) is not None:
        index.touch_due(at_ns)
        found.append((at_ns, set(index.touched.nodes)))
        index.touched.nodes.clear()
    return found


def compare(core: CoordinatorCore, now_ns: int) -> None:
    """Compare a core with a loaded copy after an empty event, which recomputes the sums of the
    copy.
    """
    kept, loaded = copy.deepcopy(core), CoordinatorCore(0, CHECKED)
    loaded.state = codec.load_state(codec.dump_state(core.state))
    loaded.look_at_everything()
    kept.handle(ev.TimePassed(), now_ns)
    loaded.handle(ev.TimePassed(), now_ns)
    # The updated state may still name lost nodes, as an index may, but must not lack a waiting
    # node.
    waiting = kept.state.cap_sums.waiting_uw.items()
    assert loaded.state.cap_sums.waiting_uw.items() <= waiting
    assert told(kept.state) == told(loaded.state)
