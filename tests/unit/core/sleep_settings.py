"""Powers and times of sleeping nodes in the tests of the core."""

from __future__ import annotations

from wattfold.coordinator.core.model.node_power import SleepSettings

S, W = 1_000_000_000, 1_000_000
SLEEP = SleepSettings(asleep_uw=5 * W, boot_uw=40 * W, boot_ns=15 * S, boots_max=1)
