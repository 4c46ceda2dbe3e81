"""Caps of the DRAM and the GPUs of a job, in addition to the package cap.

A job's `cap_uw` is the cap of its packages. DRAM without a level has the default cap
(`charge.standing_cap_uw`). GPUs without a level have their maximum limits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Caps in microwatts; 0 = the default cap for DRAM, the maximum limit for GPUs."""

    dram_uw: int = 0
    """Cap of the DRAM of a whole node: the sum over its zones."""
    gpu_uw: int = 0
    """Cap of each GPU of the job."""

    def __bool__(self) -> bool:
        return bool(self.dram_uw or self.gpu_uw)

    def under(self, asked: Levels) -> Levels:
        """Return these levels, overridden by the requested levels."""
        if not asked:
            return self
        return Levels(dram_uw=asked.dram_uw or self.dram_uw, gpu_uw=asked.gpu_uw or self.gpu_uw)


PLAIN = Levels()
