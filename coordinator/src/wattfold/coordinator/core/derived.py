"""All that can be worked out from the stored state and is kept to save doing so.

Not stored, compared or sent to copies: a state that is loaded makes it anew, the index at once and
what is summed over nodes with its first event, which looks at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.cap_sums import CapSums
from wattfold.coordinator.core.index import Index
from wattfold.coordinator.core.job import Job
from wattfold.coordinator.core.node import Node


@dataclass(slots=True)
class Derived:
    """Nothing in here is decided here; to forget all of it changes no answer."""

    index: Index = field(default_factory=Index)
    cap_sums: CapSums = field(default_factory=CapSums)

    @classmethod
    def of(cls, jobs: Iterable[Job], nodes: Iterable[Node], keys: Mapping[str, JobId]) -> Derived:
        """What is derived of a state with these jobs, nodes and idempotency keys."""
        return cls(index=Index(jobs, nodes, keys))
