"""The settings of slowdown-driven malleable backfill, and what it knows of how jobs share nodes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import best_lent
from wattfold.coordinator.policies.slowdown_driven_choice import Limits


class Power(enum.StrEnum):
    """What sharing goes by of power."""

    ANY = "any"
    """Power keeps nobody from sharing: caps of guest and mates go down where it takes that."""
    WATTS = "watts"
    """A job shares only where there are watts for it, so that no mate's cap goes down."""
    WEIGH = "weigh"
    """As ``watts``; energy saved is weighed against slowdown, also where nodes are free."""


class Sharing(NamedTuple):
    """How a job shares nodes."""

    lends: bool
    """Malleable: it may be shrunk, and grown again, while it runs."""
    borrows: bool
    """Moldable or malleable: it may start on fewer cores than it asks for."""
    least: int = 1
    """Cores it must have on each of its nodes: one for each of its ranks."""
    serial_ppm: int | None = None
    """What of its time fewer cores do not stretch (`models.amdahl`); None = not known."""
    power_uw: int = 0
    """What it adds to each of its nodes; looked at where energy is weighed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules:
    """Settings of the policy.

    ``dynamic``: MAX_SLOWDOWN is the mean predicted slowdown of the running jobs (DynAVGSD).
    ``benefit``: a job must be predicted to end earlier than by the static schedule, by more than
    ``least_gain`` times what it asked for: so much must its predicted slowdown fall.
    ``protects``: mates may not end so late that the first that waits starts later than is reserved
    for it.
    ``contiguous``: the nodes of mates are neighbours, by their numbers or in the order of the site.
    ``free_nodes``: free nodes may complete a combination. ``mapped``: jobs that wait, before the
    one looked at, whose reservations the static schedule reckons with. ``tested``: so many of those
    that wait are looked at for mates, in order. ``energy_weight``: what saving all the energy of a
    job's own run is worth, in slowdown, where energy is weighed. ``guests``: jobs that a running
    one lends to at a time, over named nodes; counted ones know one.
    """

    limits: Limits = field(default_factory=Limits)
    dynamic: bool = False
    factor: float = 0.5
    benefit: bool = True
    least_gain: float = 0.0
    protects: bool = True
    contiguous: bool = False
    free_nodes: bool = False
    mapped: int = 32
    tested: int = 200
    power: Power = Power.WATTS
    energy_weight: float = 1.0
    guests: int = 1


def lent_at_most(factor: float, cores: int, serial_ppm: int | None) -> int:
    """Cores of a node that a job lends: by the sharing factor, and by its speed where known.

    One that loses much lends no more than half; beyond that the factor must allow it.
    """
    most = int(factor * cores)
    return most if serial_ppm is None else min(most, best_lent(cores, serial_ppm))
