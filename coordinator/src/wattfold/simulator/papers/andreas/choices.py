"""Conversion of a case into a policy with its settings, a price, and a budget."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.models.energy_price import EnergyPrice, parse_table
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import Value
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.papers.andreas.case import CAPS, TrainingCase
from wattfold.simulator.papers.andreas.prices import (
    BESIDE_EUR_PER_MWH,
    SPRING,
    TABLE_TEXT,
    WINTER,
    day_ahead,
    series_text,
)
from wattfold.simulator.papers.andreas.settings import (
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

DAYS = 60
"""Days of a series of prices; after it, the last price holds."""
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
"""Variants with names other than their policy's."""


def policy_of(case: TrainingCase) -> Policy:
    """Return the policy of a case, with its settings."""
    name, values = VARIANTS.get(case.policy, (case.policy, {}))
    entry = registry.find(name)
    assert entry is not None, f"no policy {name}"
    values = {"pue": PUE, **values}
    if case.settings.workload == MEASURED:
        values |= {"gpu_idle": 0.0}  # The measured power of nodes includes idle GPUs.
    if name == OURS:
        values |= {"restart_s": case.settings.restart_s}
    if case.policy == PAPERS:
        values |= {"passes": case.settings.iterations}
    with _priced(case) as prices:
        return entry.service(values | prices)


@contextmanager
def _priced(case: TrainingCase) -> Iterator[dict[str, Value]]:
    """Yield the prices as settings; a series is passed in a file."""
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
    """Return the price of energy in a case; a series is drawn from its seed."""
    if case.price == CONSTANT:
        return EnergyPrice.constant(CONSTANT_EUR)
    if case.price == TABLE:
        return parse_table(TABLE_TEXT)
    shape = SPRING if case.price in (SPRING_SPOT, SPRING_SITE) else WINTER
    site = case.price in (SPRING_SITE, WINTER_SITE)
    return day_ahead(shape, DAYS, case.seed, BESIDE_EUR_PER_MWH if site else 0.0)


def budget_of(case: TrainingCase, machine: NodeMachine) -> BudgetSchedule:
    """Return a budget that never binds, except in the runs on power budgets."""
    if case.family != CAPS:
        return BudgetSchedule.constant(machine.full_uw)
    idle_uw = machine.idle_total_uw
    return BudgetSchedule.constant(idle_uw + round((machine.full_uw - idle_uw) * case.budget_share))
