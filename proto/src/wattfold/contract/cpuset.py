"""A set of CPU numbers with the kernel's text form (``0-3,8``), see cpuset(7), "List format"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MAX_CPU = 65_535


@dataclass(frozen=True, slots=True)
class CpuSet:
    """An immutable set of CPU numbers. Iterates in ascending order."""

    cpus: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def of(cls, cpus: Iterable[int]) -> CpuSet:
        """Return the set of these numbers. Raises ValueError outside 0..65535."""
        numbers = frozenset(cpus)
        for cpu in numbers:
            if not 0 <= cpu <= MAX_CPU:
                raise ValueError(f"CPU number {cpu} is outside 0..{MAX_CPU}")
        return cls(numbers)

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Parse the kernel's list format; an empty text is the empty set. Raises ValueError."""
        numbers: set[int] = set()
        for part in text.strip().split(","):
            if part.strip():
                numbers.update(_parse_range(part.strip(), text))
        return cls.of(numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.cpus))

    def __len__(self) -> int:
        return len(self.cpus)

    def __contains__(self, cpu: object) -> bool:
        return cpu in self.cpus

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.cpus | other.cpus)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.cpus & other.cpus)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.cpus - other.cpus)

    def __le__(self, other: CpuSet) -> bool:
        return self.cpus <= other.cpus

    def isdisjoint(self, other: CpuSet) -> bool:
        """Whether the sets have no common CPU."""
        return self.cpus.isdisjoint(other.cpus)

    def take(self, count: int) -> CpuSet:
        """Return the ``count`` lowest CPUs. Raises ValueError if the set has fewer."""
        if not 0 <= count <= len(self):
            raise ValueError(f"cannot take {count} of {len(self)} CPUs")
        return CpuSet(frozenset(sorted(self.cpus)[:count]))

    def __str__(self) -> str:
        parts: list[str] = []
        ordered = sorted(self.cpus)
        start = 0
        for i, cpu in enumerate(ordered):
            if i + 1 == len(ordered) or ordered[i + 1] != cpu + 1:
                parts.append(str(cpu) if start == i else f"{ordered[start]}-{cpu}")
                start = i + 1
        return ",".join(parts)


def _parse_range(part: str, whole: str) -> range:
    low, dash, high = part.partition("-")
    if not low.isdigit() or (dash and not high.isdigit()):
        raise ValueError(f"not a CPU list: {whole!r} (at {part!r}); expected for example 0-3,8")
    first, last = int(low), int(high) if dash else int(low)
    if last < first or last > MAX_CPU:
        raise ValueError(f"not a CPU range: {part!r}; expected ascending numbers up to {MAX_CPU}")
    return range(first, last + 1)
