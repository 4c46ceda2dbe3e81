"""Log lines of the agent: an event name and ``key=value`` pairs with the unit in the key."""

from __future__ import annotations

import logging

from wattfold import log_output
from wattfold.contract.log_text import line

_LOGGER = logging.getLogger("wattfold.agent")


def start_logging() -> None:
    """Write events to standard error, times in UTC."""
    log_output.start()
    _LOGGER.setLevel(logging.INFO)


def info(event: str, **values: object) -> None:
    """Log an event of normal operation."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info(line(event, **values))


def warning(event: str, **values: object) -> None:
    """Log an event that may need attention."""
    if _LOGGER.isEnabledFor(logging.WARNING):
        _LOGGER.warning(line(event, **values))
