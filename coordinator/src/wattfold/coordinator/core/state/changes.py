"""Changes by events, for components that follow the state: views, learning, a replica.

They examine only the named jobs and nodes, so their work depends on the number of events, not on
the number of jobs and nodes. As in `index`, unchanged items may be named, but none is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.state.index import Touched
from wattfold.coordinator.core.state.state import State

_OF_THE_NODE_ALONE = (
    reports.LeaseRenewed,
    reports.LeaseUnconfirmed,
    reports.CapsAnswered,
    reports.CapsUnconfirmed,
    reports.CapsNotHeld,
)
"""Events about a node that do not change its jobs."""


@dataclass(slots=True)
class Changes:
    """Changed jobs and nodes, in the order of their first change.

    A job or node that is not in the state any more was deleted. ``everything`` stands for all.
    """

    everything: bool = False
    jobs: dict[JobId, None] = field(default_factory=dict)
    nodes: dict[NodeId, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.everything or self.jobs or self.nodes)

    def add(
        self, state: State, event: ev.Event, touched: Touched, actions: Iterable[act.Action]
    ) -> None:
        """Add a handled event, the items it touched and the resulting actions."""
        self.everything |= touched.everything
        self.nodes.update(dict.fromkeys(touched.nodes))
        self.jobs.update(touched.shown)
        for named in (event, *actions):
            job_id = getattr(named, "job_id", None)
            # A job that is not submitted yet would precede jobs that are submitted before it.
            if job_id in state.jobs:
                self.jobs[job_id] = None
        if not isinstance(event, _OF_THE_NODE_ALONE):
            for node_id in touched.nodes:
                self.jobs.update((job.job_id, None) for job in state.on_node(node_id))
        self.jobs.update(dict.fromkeys(touched.jobs))

    def merge(self, later: Changes) -> None:
        """Add later changes."""
        self.everything |= later.everything
        self.jobs.update(later.jobs)
        self.nodes.update(later.nodes)

    def first(self, most: int) -> Changes:
        """Remove and return the oldest changes: up to ``most`` jobs and ``most`` nodes."""
        part = Changes()
        for source, target in ((self.jobs, part.jobs), (self.nodes, part.nodes)):
            for key in [key for key, _ in zip(source, range(most), strict=False)]:
                target[key] = source.pop(key)  # type: ignore[index,call-overload]
        return part
