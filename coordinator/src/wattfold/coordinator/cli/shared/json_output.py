"""JSON for programs: documents of commands."""

from __future__ import annotations

import json
import math


def dumps(document: object) -> str:
    """One JSON document, indented. A value JSON has no word for (NaN, infinity) is null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def dumps_line(document: object) -> str:
    """One JSON document on one line, for a stream of them."""
    return json.dumps(_finite(document), ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
