"""Levels of a job beside that of its packages: caps of the DRAM and the GPUs of its nodes.

A job's `cap_uw` is the level of the packages. DRAM that is left open here stands as it does when no
policy chooses (`charge.standing_cap_uw`), GPUs of a job hold their greatest limits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Microwatts; 0 leaves DRAM to its standing caps, and the job's GPUs at their greatest."""

    dram_uw: int = 0
    """Of the DRAM of a whole node, all its zones together."""
    gpu_uw: int = 0
    """Of each GPU the job has."""

    def __bool__(self) -> bool:
        return bool(self.dram_uw or self.gpu_uw)

    def under(self, asked: Levels) -> Levels:
        """These, but for what was asked for, which holds whatever anybody chose."""
        if not asked:
            return self
        return Levels(dram_uw=asked.dram_uw or self.dram_uw, gpu_uw=asked.gpu_uw or self.gpu_uw)


PLAIN = Levels()
