"""Watts that an ended job gave up, and watts that it gained, from its mean cap.

The *demand* of a job is the power of its cores without a cap of the policy: at the maximum of their
node, or at the cap that the user requested. The *even share* is their power if the budget were
divided evenly, so that all nodes have the same part of the range of their packages. On
identical nodes this is one cap for all.

- A job *gave up* its demand minus its power at its mean cap.
- It *gained* its power at its mean cap minus its even share, if that is positive.

A job may do both: it gained over its neighbours and still ran below its demand. Power is that of
`charge.share_uw`, above the floors. Each value is multiplied by the core time of the job, so
energies are in joules. The budget is that in force at the end of the job, and the cap is the mean
over the run time. Jobs without a cap gave up and gained nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.power.charge import node_uw
from wattfold.coordinator.core.state.state import State

_NS_PER_S = 1_000_000_000
_UJ_PER_MJ = 1_000


class Traded(NamedTuple):
    """Energy in millijoules, and the run time with a cap in milliseconds."""

    given_up_mj: int = 0
    gained_mj: int = 0
    capped_ms: int = 0


class EvenShare:
    """The part of its cap range at which each node stands if the budget is divided evenly.

    The part is computed again only when budget or nodes change.
    """

    def __init__(self) -> None:
        self._key: tuple[int, ...] = ()
        self._part = 0.0

    def part(self, state: State) -> float:
        """Return the part, from 0 (all nodes at their floors) to 1 (all at their maximum)."""
        ledger, fixed_uw = state.ledger, state.index.fixed_uw
        key = (ledger.budget_uw, fixed_uw, ledger.outside_uw, len(state.nodes))
        if key != self._key:
            kinds = [node.spec.kind for node in state.nodes.values() if node.spec is not None]
            span_uw = sum(kind.most_uw - kind.floor_uw for kind in kinds)
            free_uw = ledger.budget_uw - fixed_uw - ledger.outside_uw
            self._part = min(max(free_uw / span_uw, 0.0), 1.0) if span_uw > 0 else 1.0
            self._key = key
        return self._part


def traded(job: Job, state: State, even: EvenShare) -> Traded:
    """Return what an ended job gave up and gained over all attempts."""
    if not job.capped_ns:
        return Traded()
    level_uw = job.cap_uw_ns // job.capped_ns
    given_uj = gained_uj = 0
    part = even.part(state)
    for kind, core_ns in _work(job, state):
        had_uw = node_uw(kind, level_uw)
        wanted_uw = node_uw(kind, job.spec.cap_uw or kind.most_uw)
        even_uw = round(part * (kind.most_uw - kind.floor_uw))
        per_node = kind.cores * _NS_PER_S
        given_uj += max(wanted_uw - had_uw, 0) * core_ns // per_node
        gained_uj += max(had_uw - even_uw, 0) * core_ns // per_node
    return Traded(
        given_up_mj=given_uj // _UJ_PER_MJ,
        gained_mj=gained_uj // _UJ_PER_MJ,
        capped_ms=job.capped_ns // 1_000_000,
    )


def _work(job: Job, state: State) -> Iterator[tuple[NodeKind, int]]:
    """Yield kinds of nodes with the core time of the job there, in nanoseconds.

    The core time of an earlier attempt is divided evenly over its nodes. Nodes that the coordinator
    no longer knows are left out.
    """
    parts = [(node, rank.end.core_ns) for node, rank in job.ranks.items() if rank.end is not None]
    for attempt in job.attempts:
        parts += [(node, attempt.core_ns // len(attempt.nodes)) for node in attempt.nodes]
    for node_id, core_ns in parts:
        node = state.nodes.get(node_id)
        if node is not None and node.spec is not None:
            yield node.spec.kind, core_ns
