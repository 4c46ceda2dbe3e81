"""Settings of slowdown-driven malleable backfill, and the sharing properties of jobs."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import best_lent
from wattfold.coordinator.policies.slowdown_driven.choice import MateLimits


class PowerSharing(enum.StrEnum):
    """Treatment of power when jobs share nodes."""

    ANY = "any"
    """Power never prevents sharing: caps of guest and mates are lowered if needed."""
    WATTS = "watts"
    """A job shares only if there is enough power for it without lowering a mate's cap."""
    WEIGH = "weigh"
    """As ``watts``, and saved energy is weighed against slowdown, even if nodes are free."""


class NodeSharing(NamedTuple):
    """How a job shares nodes."""

    lends: bool
    """Malleable: it may be shrunk and expanded while it runs."""
    borrows: bool
    """Moldable or malleable: it may start on fewer cores than requested."""
    least: int = 1
    """Minimum cores on each of its nodes: one for each of its ranks."""
    serial_ppm: int | None = None
    """Share of its time that fewer cores do not stretch (`models.amdahl`); None = unknown."""
    power_uw: int = 0
    """Additional power of each of its nodes; used if energy is weighed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules:
    """Settings of the policy.

    ``dynamic``: MAX_SLOWDOWN is the mean predicted slowdown of the running jobs (DynAVGSD).
    ``benefit``: a job must be predicted to end earlier than by the static schedule, by more than
    ``least_gain`` times its requested time. So ``least_gain`` is the minimum reduction of its
    predicted slowdown. ``protects``: the ends of mates must not delay the head of the queue beyond
    its reserved start. ``contiguous``: the nodes of mates must be neighbours, by number or in the
    order of the site. ``free_nodes``: free nodes may complete a combination. ``mapped``: number of
    waiting jobs ahead whose reservations the static schedule includes. ``tested``: number of
    waiting jobs for which mates are searched, in order. ``energy_weight``: value of saving all the
    energy of a job's own run, in slowdown, if energy is weighed. ``guests``: maximum number of jobs
    that a running job lends to at a time, on named nodes; on counted nodes it is one.
    """

    limits: MateLimits = field(default_factory=MateLimits)
    dynamic: bool = False
    factor: float = 0.5
    benefit: bool = True
    least_gain: float = 0.0
    protects: bool = True
    contiguous: bool = False
    free_nodes: bool = False
    mapped: int = 32
    tested: int = 200
    power: PowerSharing = PowerSharing.WATTS
    energy_weight: float = 1.0
    guests: int = 1


def lent_at_most(factor: float, cores: int, serial_ppm: int | None) -> int:
    """Return the cores of a node that a job lends, by the sharing factor and its known speed.

    A job with a large loss lends at most half of its cores; more requires a larger factor.
    """
    most = int(factor * cores)
    return most if serial_ppm is None else min(most, best_lent(cores, serial_ppm))
