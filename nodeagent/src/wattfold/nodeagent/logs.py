"""Log lines of the agent: an event name and ``key=value`` pairs with the unit in the key."""

from __future__ import annotations

import json
import logging
import sys
import time

_LOGGER = logging.getLogger("wattfold.agent")


def start_logging() -> None:
    """Writes events to standard error, times in UTC."""
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def info(event: str, **values: object) -> None:
    """Something that is as it should be."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info(_line(event, values))


def warning(event: str, **values: object) -> None:
    """Something a person may want to look at."""
    if _LOGGER.isEnabledFor(logging.WARNING):
        _LOGGER.warning(_line(event, values))


def _line(event: str, values: dict[str, object]) -> str:
    return " ".join([f"event={event}", *(f"{key}={_text(value)}" for key, value in values.items())])


def _text(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if text and plain else json.dumps(text)
