"""What policies are told beside the journal: measurements, and where the nodes stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.placing import Placing, with_places
from wattfold.coordinator.adapters.residual import with_cores
from wattfold.coordinator.core.plan import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """``residual``: cores on which residual work was measured; ``placing``: None = as listed."""

    residual: Mapping[NodeId, CpuSet] = field(default_factory=dict)
    placing: Placing | None = None

    def told(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with all of it."""
        return with_places(with_cores(snapshot, self.residual), self.placing)
