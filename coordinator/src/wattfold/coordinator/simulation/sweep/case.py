"""What a sweep runs: cases, each a small frozen description, and the keys of their results.

A key is a readable label and a digest of everything that decides the result: what the case says of
itself, and the version of the code that runs it. The version is a digest of source text, so that
nobody has to remember to raise a number; a comment changed there makes old results stale too, which
costs time but never gives a wrong table.
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
"""What a case gives: numbers by name."""


class Case(Protocol):
    """Picklable, and small: what it needs it reads or draws where it runs."""

    @property
    def label(self) -> str:
        """A few words for people and file names."""

    def identity(self) -> Mapping[str, object]:
        """All that decides the result, as JSON has it: no paths, no addresses of objects."""


Measure = Callable[[Case], Values]
"""Runs one case; a function at the top level of a module, so that other processes find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A case that gave its values."""

    values: Values
    cpu_s: float
    """Processor time it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A case that did not."""

    reason: str
    """One line."""
    trace: str = ""


Outcome = Done | Failed


def case_key(case: Case, version: str) -> str:
    """A name for the file of a result; the same for the same case under the same code."""
    text = json.dumps([version, case.identity()], sort_keys=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    label = re.sub(r"[^A-Za-z0-9.]+", "-", case.label).strip("-.")[:80]
    return f"{label}-{digest}"


def code_version(names: Sequence[str]) -> str:
    """A digest of the source of these modules, and of all modules below those that are packages.

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
