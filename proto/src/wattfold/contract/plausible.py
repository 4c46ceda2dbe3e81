"""Plausibility limits for power and CPU time readings; larger values are counter faults.

A counter that is reset, or a register that is read wrongly, shows steps that no hardware can make.
Agents count such a step as nothing, and the coordinator never charges more than these bounds.
"""

from __future__ import annotations

from wattfold.contract.units import NS_PER_MS, NS_PER_S

TIMES_MAX = 5
"""A zone may draw several times its rated power for a short time: mobile processors reach 4.3 times
their long-term limit (15 W, and 64 W in turbo)."""
UW_MAX_UNKNOWN = 2_000_000_000
"""Assumed maximum power of a zone whose maximum is unknown."""
COUNTER_LATE_NS = 100 * NS_PER_MS
"""Maximum age of a counter value at its reading: GPU drivers update theirs every 20 to 100 ms."""
CPU_LATE_NS = NS_PER_S
"""The same for CPU time, which the kernel adds late for ending processes."""


def power_uw_max(most_uw: int) -> int:
    """Return the maximum plausible mean power (uW); ``most_uw``: maximum of the zone, or 0."""
    return TIMES_MAX * (most_uw or UW_MAX_UNKNOWN)


def energy_uj_max(power_uw: int, elapsed_ns: int) -> int:
    """Return the maximum energy (uJ) at this power between two readings of a counter."""
    return power_uw * (max(elapsed_ns, 0) + COUNTER_LATE_NS) // NS_PER_S


def cpu_ns_max(cpus: int, elapsed_ns: int) -> int:
    """Return the maximum CPU time (ns) of this number of CPUs between two readings."""
    return cpus * (max(elapsed_ns, 0) + CPU_LATE_NS)
