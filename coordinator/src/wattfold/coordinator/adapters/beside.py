"""Policy inputs that are not in the journal: measurements, and the positions of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.learning.residual import with_cores
from wattfold.coordinator.adapters.placing import Placing, with_places
from wattfold.coordinator.core.model.plan import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """``residual``: cores with measured residual work; ``placing``: None = in the listed order."""

    residual: Mapping[NodeId, CpuSet] = field(default_factory=dict)
    placing: Placing | None = None

    def told(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with these inputs added."""
        return with_places(with_cores(snapshot, self.residual), self.placing)
