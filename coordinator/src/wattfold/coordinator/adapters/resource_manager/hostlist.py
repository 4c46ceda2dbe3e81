"""Lists of node names in the compressed form of Slurm, such as ``n[1-3,07],gpu2``."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMES_MAX = 100_000
_PART = re.compile(r"([^\[\],]*)((?:\[[^\]]*\][^\[\],]*)*)(?:,|$)")
_BRACKET = re.compile(r"\[([^\]]*)\]([^\[\],]*)")


def names_in(text: str) -> list[str]:
    """Return the names of a list, in its order. Raises ValueError if it is not such a list."""
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            raise ValueError(f"not a list of nodes: {text[:80]!r}")
        at = match.end()
        found += _expanded(match[1], _BRACKET.findall(match[2]))
        if len(found) > NAMES_MAX:
            raise ValueError(f"more than {NAMES_MAX} nodes in {text[:80]!r}")
    return [name for name in found if name]


def _expanded(head: str, brackets: list[tuple[str, str]]) -> list[str]:
    names = [head]
    for inside, tail in brackets:
        names = [f"{name}{number}{tail}" for name in names for number in _numbers(inside)]
    return names


def _numbers(inside: str) -> Iterator[str]:
    for part in inside.split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise ValueError(f"not a range of numbers: {part[:40]!r}")
        last = int(high) if dash else int(low)
        if last - int(low) >= NAMES_MAX:
            raise ValueError(f"more than {NAMES_MAX} nodes in {part[:40]!r}")
        for number in range(int(low), last + 1):
            yield str(number).zfill(len(low))
