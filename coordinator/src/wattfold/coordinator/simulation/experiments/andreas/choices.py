"""How a case becomes a policy with its settings, a price, and a budget."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.models.energy_price import EnergyPrice, parse_table
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.descriptions import Value
from wattfold.coordinator.simulation.experiments.andreas.case import CAPS, TrainingCase
from wattfold.coordinator.simulation.experiments.andreas.prices import (
    BESIDE_EUR_PER_MWH,
    SPRING,
    TABLE_TEXT,
    WINTER,
    day_ahead,
    series_text,
)
from wattfold.coordinator.simulation.experiments.andreas.settings import (
    CAPPED,
    CONSTANT,
    CONSTANT_EUR,
    FIFO,
    LEVELS,
    MEASURED,
    OURS,
    PAPERS,
    PUE,
    SPRING_SITE,
    SPRING_SPOT,
    TABLE,
    UNAWARE,
    WINTER_SITE,
)
from wattfold.coordinator.simulation.pool.budget import Budget
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine

DAYS = 60
"""Of a series of prices; after it the last one holds."""
VARIANTS: dict[str, tuple[str, dict[str, Value]]] = {
    FIFO: ("edf", {"order": "submission"}),
    "fifo, waits": ("edf", {"order": "submission", "choice": "awaited"}),
    "edf, waits": ("edf", {"choice": "awaited"}),
    "priority, waits": ("priority", {"choice": "awaited"}),
    PAPERS: (
        OURS,
        {"attempts": 0, "energy": "jobs", "others": 0.0, "postponed": "worst", "haste": 0.0},
    ),
    UNAWARE: (OURS, {}),
    CAPPED: (OURS, {"gpu_levels": LEVELS}),
}
"""What is not called as its policy is."""


def policy_of(case: TrainingCase) -> Policy:
    """The policy of a case, with its settings."""
    name, values = VARIANTS.get(case.policy, (case.policy, {}))
    entry = registry.find(name)
    assert entry is not None, f"no policy {name}"
    values = {"pue": PUE, **values}
    if case.settings.workload == MEASURED:
        values |= {"gpu_idle": 0.0}  # It is in what was measured of nodes.
    if name == OURS:
        values |= {"restart_s": case.settings.restart_s}
    if case.policy == PAPERS:
        values |= {"passes": case.settings.iterations}
    with _priced(case) as prices:
        return entry.service(values | prices)


@contextmanager
def _priced(case: TrainingCase) -> Iterator[dict[str, Value]]:
    """The prices as settings; series are told by a file."""
    price = price_of(case)
    if case.price == CONSTANT:
        yield {"price_eur_per_kwh": CONSTANT_EUR}
    elif case.policy == UNAWARE:
        yield {"price_eur_per_kwh": sum(price.eur_per_kwh) / len(price.eur_per_kwh)}
    elif case.price == TABLE:
        yield {"price_eur_per_kwh": 0.0, "price_table": TABLE_TEXT}
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "prices.csv"
            path.write_text(series_text(price), encoding="utf-8")
            yield {"price_eur_per_kwh": 0.0, "price_file": str(path)}


def price_of(case: TrainingCase) -> EnergyPrice:
    """What energy costs in a case; a series is drawn from its seed."""
    if case.price == CONSTANT:
        return EnergyPrice.constant(CONSTANT_EUR)
    if case.price == TABLE:
        return parse_table(TABLE_TEXT)
    shape = SPRING if case.price in (SPRING_SPOT, SPRING_SITE) else WINTER
    site = case.price in (SPRING_SITE, WINTER_SITE)
    return day_ahead(shape, DAYS, case.seed, BESIDE_EUR_PER_MWH if site else 0.0)


def budget_of(case: TrainingCase, machine: NodeMachine) -> Budget:
    """One that never binds, but in the runs that are about it."""
    if case.family != CAPS:
        return Budget.constant(machine.full_uw)
    floors_uw = machine.floors_uw
    return Budget.constant(floors_uw + round((machine.full_uw - floors_uw) * case.budget_share))
