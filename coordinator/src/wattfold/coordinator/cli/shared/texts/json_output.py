"""JSON documents of commands, for programs."""

from __future__ import annotations

import json
import math


def dumps(document: object, *, ascii_only: bool = False) -> str:
    """Return an indented JSON document. Values without a JSON form (NaN, infinity) are null.

    With ``ascii_only``, for output in another encoding than UTF-8.
    """
    return json.dumps(_finite(document), indent=2, ensure_ascii=ascii_only, allow_nan=False)


def dumps_line(document: object) -> str:
    """Return a JSON document on one line, for a stream of documents."""
    return json.dumps(_finite(document), ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
