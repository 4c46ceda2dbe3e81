"""Assumptions for details that a paper leaves open, as fields of a dataclass.

A field states default, help and choices once; `wattfold reproduce` derives an option from it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar

T = TypeVar("T", int, float, str)


def assumption(
    default: T,
    *,
    help: str,  # noqa: A002 - the help of the option
    metavar: str | None = None,
    option: str = "",
    choices: tuple[str, ...] = (),
) -> T:
    """Return a field. Its option has the name of the field without the unit, or ``option``."""
    stated = {"help": help, "metavar": metavar, "option": option, "choices": choices}
    return field(default=default, metadata=stated)
