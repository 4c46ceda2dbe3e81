"""Lists of node names in a short form: `n[01-03,07],gpu1`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)(\d{1,15})\Z", re.DOTALL)
_GROUP = re.compile(r"[^,\[]+(?:\[[^\]]*\])?")


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


def holds(folded_list: str, name: str) -> bool:
    """Whether a list of `folded` contains a name."""
    match = _NUMBERED.match(name)
    start, width, number = (match[1], len(match[2]), int(match[2])) if match else (name, 0, 0)
    for group in _GROUP.findall(folded_list):
        if group == name:
            return True
        if width and group.startswith(f"{start}[") and group.endswith("]"):
            for part in group[len(start) + 1 : -1].split(","):
                first, _, last = part.partition("-")
                if len(first) == width and int(first) <= number <= int(last or first):
                    return True
    return False


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
