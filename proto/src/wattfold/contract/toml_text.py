"""Configuration files of both services as values, with an error for all that cannot be read.

The parser fails in other ways for what is valid TOML and no configuration: numbers of thousands of
digits, and values in thousands of brackets.
"""

from __future__ import annotations

import math
import tomllib
from typing import Any


def parsed(text: str) -> dict[str, Any]:
    """Return the values of a TOML text. Raises ValueError; the message says what is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ValueError("a number has thousands of digits") from None
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def as_float(value: int) -> float:
    """Return the number as a float; infinite if it is above all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def shown(value: float) -> str:
    """Return a number of a configuration for messages."""
    return f"{as_float(value) if isinstance(value, int) else value:g}"


def has_nul(value: object) -> bool:
    """Whether a value is a text with a NUL character, which no path and no name can have."""
    return isinstance(value, str) and "\0" in value
