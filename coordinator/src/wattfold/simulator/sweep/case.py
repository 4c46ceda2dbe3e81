"""Cases of a sweep, each a small frozen description, and the keys of their results.

A key is a readable label and a digest of all inputs of the result: the identity of the case, and
the version of its code. The version is a digest of source text, so it needs no manual update. A
changed comment there also makes old results stale, which costs time but never gives a wrong table.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Values = Mapping[str, float]
"""Results of a case: numbers by name."""


class Case(Protocol):
    """A small description that can be pickled. It reads or draws its data where it runs."""

    @property
    def label(self) -> str:
        """A short label for people and file names."""

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result, as JSON without paths and addresses."""


Measure = Callable[[Case], Values]
"""Function that runs one case; at module level, so that other processes can import it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A successful case."""

    values: Values
    cpu_s: float
    """CPU time of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCase:
    """A failed case."""

    reason: str
    """One line."""
    trace: str = ""


Outcome = Done | FailedCase


def case_key(case: Case, version: str) -> str:
    """Return the file name of a result, which is the same for the same case under the same code."""
    text = json.dumps([version, case.identity()], sort_keys=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    label = re.sub(r"[^A-Za-z0-9.]+", "-", case.label).strip("-.")[:80]
    return f"{label}-{digest}"


def code_version(names: Sequence[str]) -> str:
    """Return a digest of the source of these modules, and of all modules in those packages.

    Raises ValueError for a name without source.
    """
    digest = hashlib.sha256()
    for name in names:
        for path in _sources(name):
            digest.update(f"{name}/{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        places = [Path(place) for place in spec.submodule_search_locations]
        return [path for place in places for path in sorted(place.rglob("*.py"))]
    if spec is None or spec.origin is None or not spec.has_location:
        raise ValueError(f"no module with source: {name}")
    return [Path(spec.origin)]
