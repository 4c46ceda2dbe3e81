"""Text of log lines, the same in every service: an event name and ``key=value`` pairs.

Units are in the keys. A value with blanks, quotes or control characters is a JSON string, so that a
line is one line and can be taken apart again.
"""

from __future__ import annotations

import json

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
LINE_FORMAT = "%(asctime)sZ %(levelname)s %(message)s"
"""For a logging.Formatter whose times are UTC."""


def line(event: str, /, **values: object) -> str:
    """``event=NAME key=value ...``, in the order given."""
    pairs = (f"{key}={_text(value)}" for key, value in values.items())
    return " ".join([f"event={event}", *pairs])


def _text(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if text and plain else json.dumps(text)
