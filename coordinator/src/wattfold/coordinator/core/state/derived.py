"""Values derived from the stored state, stored only for speed.

They are not stored in the journal, compared or replicated. A loaded state rebuilds them: the index
at once, and sums over nodes with the first event, which examines everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.power.cap_sums import CapSums
from wattfold.coordinator.core.state.admissions import Admissions
from wattfold.coordinator.core.state.index import Index


@dataclass(slots=True)
class Derived:
    """Derived values. Dropping them changes no result."""

    index: Index = field(default_factory=Index)
    cap_sums: CapSums = field(default_factory=CapSums)
    admissions: Admissions = field(default_factory=Admissions)

    @classmethod
    def of(
        cls,
        jobs: Iterable[Job],
        nodes: Iterable[Node],
        keys: Mapping[str, JobId],
        arrays: Iterable[JobId] = (),
        limit_changes: int = 0,
    ) -> Derived:
        """Derive the values of a state with these jobs, nodes, idempotency keys and arrays."""
        return cls(
            index=Index(jobs, nodes, keys, arrays),
            admissions=Admissions.of(jobs, limit_changes),
        )
