"""Boots of the nodes of a class, where they differ from the other nodes that sleep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassBoots:
    """How the nodes of a class boot. Shares are 0..1.

    ``boot_ns`` and ``boot_uw`` 0, and ``failing`` below 0: as all nodes of the run. A share of
    ``late`` boots takes ``late_ns`` longer.
    """

    class_name: str
    boot_ns: int = 0
    boot_uw: int = 0
    failing: float = -1.0
    late: float = 0.0
    late_ns: int = 0

    def __post_init__(self) -> None:
        where = f"boots of class {self.class_name!r}"
        if min(self.boot_ns, self.late_ns) < 0 or self.boot_uw < 0:
            raise ValueError(f"{where}: times and powers must not be negative")
        if self.failing > 0.9 or not 0 <= self.late <= 1:
            raise ValueError(f"{where}: a share is from 0 to 1, and at most 0.9 of the boots fail")
        if bool(self.late) != bool(self.late_ns):
            raise ValueError(f"{where}: late boots need both a share and a time")
