"""Lists of node names in a short form: `n[01-03,07],gpu1`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)(\d{1,15})\Z", re.DOTALL)


def folded(names: Iterable[str]) -> str:
    """Return names with common beginnings and consecutive numbers together, in order of names."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        match = _NUMBERED.match(name)
        if match is None:
            groups[name, 0] = []
        else:
            # Numbers of different widths, such as 7 and 07, belong to different names.
            groups.setdefault((match[1], len(match[2])), []).append(int(match[2]))
    return ",".join(_group(*key, sorted(numbers)) for key, numbers in sorted(groups.items()))


def _group(start: str, width: int, numbers: list[int]) -> str:
    if not numbers:
        return start
    parts: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], -1]:
        if number == last + 1:
            last = number
            continue
        parts.append(f"{first:0{width}}" + (f"-{last:0{width}}" if last > first else ""))
        first = last = number
    single = len(numbers) == 1
    return start + (parts[0] if single else f"[{','.join(parts)}]")
