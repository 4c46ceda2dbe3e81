"""Comparison of the outputs of two runs of a program.

Outputs are compared bit by bit, or number by number within a tolerance. Lines that differ in every
run (times, dates, host names) can be left out. This module starts no processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Rules of a comparison. All of it zero or empty: bit by bit."""

    relative: float = 0.0
    """Two numbers agree if they differ by at most this times the larger number, or by ..."""
    absolute: float = 0.0
    """... at most this."""
    ignore: tuple[str, ...] = ()
    """Regular expressions: matching lines are left out."""

    def __post_init__(self) -> None:
        for name, value in (("relative", self.relative), ("absolute", self.absolute)):
            if not 0 <= value < float("inf"):
                raise ValueError(
                    f"the {name} tolerance must be a finite number from 0, got {value}"
                )
        for pattern in self.ignore:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"'{pattern}' is not a regular expression: {error}") from error

    @property
    def exact(self) -> bool:
        """Whether numbers must agree bit by bit."""
        return self.relative == 0 and self.absolute == 0

    def __str__(self) -> str:
        how = "bit by bit"
        if not self.exact:
            how = f"numbers within {self.relative:g} of each other or {self.absolute:g}"
        left_out = ", ".join(f"'{pattern}'" for pattern in self.ignore)
        return f"{how}, without lines that contain {left_out}" if left_out else how


def difference(
    expected: Mapping[str, bytes], found: Mapping[str, bytes], how: Comparison
) -> str | None:
    """Return the first difference between two results (name of an output: its bytes), or None."""
    if expected.keys() != found.keys():
        odd = sorted(expected.keys() ^ found.keys())
        return f"only one of the runs wrote {odd[0]}"
    for name in sorted(expected):
        where = _difference(expected[name], found[name], how)
        if where is not None:
            return f"{name} {where}"
    return None


def _difference(expected: bytes, found: bytes, how: Comparison) -> str | None:
    if expected == found:
        return None
    left, right = _lines(expected, how.ignore), _lines(found, how.ignore)
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a != b and (how.exact or not _close(a, b, how)):
            return f"line {number}: '{_show(a)}' became '{_show(b)}'"
    if len(left) != len(right):
        return f"has {len(right)} lines instead of {len(left)}"
    return None


def _lines(text: bytes, ignore: Sequence[str]) -> list[bytes]:
    patterns = [re.compile(pattern.encode()) for pattern in ignore]
    return [
        line for line in text.split(b"\n") if not any(pattern.search(line) for pattern in patterns)
    ]


def _close(a: bytes, b: bytes, how: Comparison) -> bool:
    if [part.split() for part in _NUMBER.split(a)] != [part.split() for part in _NUMBER.split(b)]:
        return False
    pairs = zip(_numbers(a), _numbers(b), strict=True)
    return all(
        abs(x - y) <= max(how.absolute, how.relative * max(abs(x), abs(y))) for x, y in pairs
    )


def _numbers(line: bytes) -> list[float]:
    # Fortran writes exponents of double precision with a D.
    return [float(n.replace(b"D", b"E").replace(b"d", b"e")) for n in _NUMBER.findall(line)]


def _show(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= 60 else text[:57] + "..."
