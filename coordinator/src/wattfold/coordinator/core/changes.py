"""What an event changed, for those who follow the state from outside: views, learning, a replica.

They look again at what is named here and at nothing else, so that their work goes with what
happens and not with the number of jobs and nodes. As in `index`, more may be named than has
changed, never less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import reports
from wattfold.coordinator.core.index import Touched
from wattfold.coordinator.core.state import State

_OF_THE_NODE_ALONE = (
    reports.LeaseRenewed,
    reports.LeaseUnconfirmed,
    reports.CapsAnswered,
    reports.CapsUnconfirmed,
    reports.CapsNotHeld,
)
"""Events about a node that leave its jobs as they are."""


@dataclass(slots=True)
class Changes:
    """Jobs and nodes to look at again, in the order in which they changed first.

    A job or node that is not in the state any more is gone. ``everything`` stands for all.
    """

    everything: bool = False
    jobs: dict[JobId, None] = field(default_factory=dict)
    nodes: dict[NodeId, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.everything or self.jobs or self.nodes)

    def add(
        self, state: State, event: ev.Event, touched: Touched, actions: Iterable[act.Action]
    ) -> None:
        """Takes in an event that was handled, what it touched and what followed from it."""
        self.everything |= touched.everything
        self.nodes.update(dict.fromkeys(touched.nodes))
        self.jobs.update(touched.shown)
        for named in (event, *actions):
            job_id = getattr(named, "job_id", None)
            # One that nobody has submitted yet would come before those submitted until it is.
            if job_id in state.jobs:
                self.jobs[job_id] = None
        if not isinstance(event, _OF_THE_NODE_ALONE):
            for node_id in touched.nodes:
                self.jobs.update((job.job_id, None) for job in state.on_node(node_id))
        self.jobs.update(dict.fromkeys(touched.jobs))

    def merge(self, later: Changes) -> None:
        """Takes in what changed after this."""
        self.everything |= later.everything
        self.jobs.update(later.jobs)
        self.nodes.update(later.nodes)

    def first(self, most: int) -> Changes:
        """Takes up to so many jobs, and as many nodes, out, those that have waited longest."""
        part = Changes()
        for source, target in ((self.jobs, part.jobs), (self.nodes, part.nodes)):
            for key in [key for key, _ in zip(source, range(most), strict=False)]:
                target[key] = source.pop(key)  # type: ignore[index,call-overload]
        return part
