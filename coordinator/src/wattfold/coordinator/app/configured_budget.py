"""The budget of the configuration. It applies when it was changed since the last start."""

from __future__ import annotations

import logging

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.door.serving import StartError
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev

log = logging.getLogger("wattfold.coordinator")


def configured_budget(config: Config, journal: Journal, core: CoordinatorCore) -> list[ev.Event]:
    """Return the event for a changed budget of the configuration; otherwise the journal's stays.

    So a budget set by an operator survives restarts until the configuration changes.
    """
    accepted_uw = config.accept_outside_uw
    configured = f"{config.budget_uw or ''}{f' accepts {accepted_uw}' if accepted_uw else ''}"
    if not config.budget_uw or journal.get_meta("configured_budget_uw") == configured:
        _report_replaced(config.budget_uw or 0, core.state.ledger.budget_uw)
        return []
    floor_uw, budget_uw = core.state.floor_uw(), config.budget_uw or 0
    if budget_uw < floor_uw:
        raise StartError(
            f"budget {budget_uw / 1e6:.1f} W is below {floor_uw / 1e6:.1f} W, the base power and "
            f"floors of the nodes in the journal; give at least {floor_uw / 1e6:.1f} W, or remove "
            "nodes first",
        )
    journal.put_meta("configured_budget_uw", configured)
    return [ev.BudgetChanged(budget_uw=budget_uw, accepted_outside_uw=accepted_uw)]


def _report_replaced(configured_uw: int, stored_uw: int) -> None:
    if configured_uw and configured_uw != stored_uw:
        log.warning(
            line(
                "configured_budget_not_used",
                budget_w=f"{stored_uw / 1e6:.1f}",
                configured_w=f"{configured_uw / 1e6:.1f}",
                reason="`wattfold budget` replaced it after it was first used; the stored budget "
                "stays until the configuration or --budget-w has another value",
            )
        )
