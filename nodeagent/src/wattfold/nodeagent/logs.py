"""Log lines of the agent: an event name and ``key=value`` pairs with the unit in the key."""

from __future__ import annotations

import logging
import sys
import time

from wattfold.contract.log_text import LINE_FORMAT, TIME_FORMAT, line

_LOGGER = logging.getLogger("wattfold.agent")


def start_logging() -> None:
    """Writes events to standard error, times in UTC."""
    formatter = logging.Formatter(LINE_FORMAT, TIME_FORMAT)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def info(event: str, **values: object) -> None:
    """Something that is as it should be."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info(line(event, **values))


def warning(event: str, **values: object) -> None:
    """Something a person may want to look at."""
    if _LOGGER.isEnabledFor(logging.WARNING):
        _LOGGER.warning(line(event, **values))
