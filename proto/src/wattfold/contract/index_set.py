"""The indices of a job array in the text form of Slurm (``1,3,7-20:2``), as ranges and in order.

A set of 100,000 indices costs as much as its ranges: nothing here walks through all indices.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

INDEX_MAX = 4_000_000
"""Highest index of an array."""
TASKS_MAX = 1_000_000
"""Maximum number of indices of an array."""
TEXT_MAX = 4096
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class IndexSet:
    """Distinct indices, as ranges in ascending order of their first indices."""

    ranges: tuple[range, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(_range_text, self.ranges))

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __contains__(self, index: object) -> bool:
        return any(index in one for one in self.ranges)

    def __getitem__(self, position: int) -> int:
        """Return the index at a position, from 0."""
        for one in self.ranges:
            if position < len(one):
                return one[position]
            position -= len(one)
        raise IndexError(position)

    @property
    def lowest(self) -> int:
        """The lowest index."""
        return min(one[0] for one in self.ranges)

    @property
    def highest(self) -> int:
        """The highest index."""
        return max(one[-1] for one in self.ranges)

    def position(self, index: int) -> int:
        """Return the position of an index. Raises ValueError if it is not in the set."""
        before = 0
        for one in self.ranges:
            if index in one:
                return before + one.index(index)
            before += len(one)
        raise ValueError(f"index {index} is not in {self}")

    def after(self, position: int) -> IndexSet:
        """Return the indices from a position on."""
        out = []
        for one in self.ranges:
            if position < len(one):
                out.append(one[position:])
            position = max(position - len(one), 0)
        return IndexSet(tuple(out))

    def without(self, indices: Iterable[int]) -> IndexSet:
        """Return the set without these indices."""
        ranges = list(self.ranges)
        for index in indices:
            for at, one in enumerate(ranges):
                if index in one:
                    place = one.index(index)
                    ranges[at : at + 1] = filter(None, (one[:place], one[place + 1 :]))
                    break
        return IndexSet(tuple(ranges))

    def with_indices(self, indices: Iterable[int]) -> IndexSet:
        """Return the set with these further indices, with neighbors joined to ranges."""
        found = [range(index, index + 1) for index in indices]
        out: list[range] = []
        for one in sorted([*self.ranges, *found], key=lambda one: one[0]):
            if out and _joins(out[-1]) and _joins(one) and out[-1][-1] + 1 == one[0]:
                out[-1] = range(out[-1][0], one[-1] + 1)
            else:
                out.append(one)
        return IndexSet(tuple(out))


def _joins(one: range) -> bool:
    return one.step == 1 or len(one) == 1


def _range_text(one: range) -> str:
    if len(one) == 1:
        return str(one[0])
    return f"{one[0]}-{one[-1]}" + (f":{one.step}" if one.step > 1 else "")


@lru_cache(maxsize=1024)
def parse_indices(text: str) -> IndexSet:
    """Parse indices such as ``0-99`` or ``1,3,7-20:2``. Raises ValueError."""
    if len(text) > TEXT_MAX:
        raise ValueError(f"index list of {len(text)} characters; the limit is {TEXT_MAX}")
    ranges = sorted((_parsed(part) for part in text.split(",")), key=lambda one: one[0])
    tasks = sum(map(len, ranges))
    if tasks > TASKS_MAX:
        raise ValueError(f"{tasks} tasks exceed the limit of {TASKS_MAX} tasks in an array")
    _refuse_repeats(ranges)
    return IndexSet(tuple(ranges))


def parse_array(text: str) -> tuple[IndexSet, int]:
    """Parse indices with an optional limit of concurrent tasks: ``0-99%10``. Raises ValueError.

    A limit of 0 stands for no limit.
    """
    indices, percent, limit = text.partition("%")
    given = limit.isascii() and limit.isdecimal() and len(limit) < 8
    if percent and not (given and 0 < int(limit) <= TASKS_MAX):
        raise ValueError(f"limit {limit[:20]!r} of concurrent tasks is not in 1..{TASKS_MAX}")
    return parse_indices(indices), int(limit) if percent else 0


def _parsed(part: str) -> range:
    match = _PART.fullmatch(part.strip())
    if match is None:
        raise ValueError(f"{part[:40]!r} is not an index or a range such as 0-99 or 7-20:2")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    step = int(match[3]) if match[3] else 1
    if last < first:
        raise ValueError(f"{part[:40]!r}: the last index is below the first")
    if last > INDEX_MAX:
        raise ValueError(f"index {last} exceeds the limit of {INDEX_MAX}")
    if step < 1:
        raise ValueError(f"{part[:40]!r}: the step must be at least 1")
    return range(first, last + 1, step)


def _refuse_repeats(ranges: list[range]) -> None:
    """Raise ValueError if an index is in two ranges, because it would run twice."""
    if all(one[-1] < other[0] for one, other in itertools.pairwise(ranges)):
        return
    seen: set[int] = set()
    for one in ranges:
        again = seen.intersection(one)
        if again:
            raise ValueError(f"index {min(again)} is given twice")
        seen.update(one)
