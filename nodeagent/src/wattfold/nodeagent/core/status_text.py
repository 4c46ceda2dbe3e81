"""Statement of a program about itself in the text of STATUS: ``request=6 phase=assembly``.

A missing request means none. All other text is ignored, because it comes from a job.
"""

from __future__ import annotations

from dataclasses import dataclass

TEXT_MAX = 128
PHASE_MAX = 31
CORES_MAX = 65_536
_PHASE_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfReport:
    """The phase of a program and its requested cores; empty and 0 if not stated."""

    phase: str = ""
    cores: int = 0


def parse_status(text: str) -> SelfReport:
    """Parse the text. The last value of a name counts."""
    phase, cores = "", 0
    for word in text[:TEXT_MAX].split(" "):
        name, _, value = word.partition("=")
        if name == "phase" and len(value) <= PHASE_MAX and _PHASE_LETTERS.issuperset(value):
            phase = value
        elif name == "request" and value.isascii() and value.isdecimal() and len(value) <= 6:
            cores = min(int(value), CORES_MAX)
    return SelfReport(phase=phase, cores=cores)
