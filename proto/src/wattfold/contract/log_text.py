"""Text of log lines, the same in every service: an event name and ``key=value`` pairs.

Units are in the keys. A value with blanks, quotes or control characters is written as a JSON
string, so that an entry stays on one line and can be parsed.
"""

from __future__ import annotations

import json

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
LINE_FORMAT = "%(asctime)sZ %(levelname)s %(message)s"
"""Format for a logging.Formatter with UTC times."""


def line(event: str, /, **values: object) -> str:
    """Return ``event=NAME key=value ...``, in the given order."""
    pairs = (f"{key}={_text(value)}" for key, value in values.items())
    return " ".join([f"event={event}", *pairs])


def _text(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if text and plain else json.dumps(text)
