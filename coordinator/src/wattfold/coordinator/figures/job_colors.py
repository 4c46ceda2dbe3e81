"""A colour and a pattern for every job, told apart with any colour vision.

The seven colours are those of Okabe and Ito ("Color Universal Design", 2008) without black; after
seven jobs they come again with a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_DARK = frozenset({"#0072B2", "#009E73", "#D55E00"})
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLook:
    """How the bars of a job are filled, and the colour of words on them."""

    fill: str
    hatch: str
    ink: str


def job_looks(jobs: Iterable[str]) -> dict[str, JobLook]:
    """One look a job, by the order of the jobs; the 43rd has that of the first."""
    looks: dict[str, JobLook] = {}
    for job in jobs:
        if job in looks:
            continue
        rounds, place = divmod(len(looks), len(_COLORS))
        fill = _COLORS[place]
        looks[job] = JobLook(
            fill=fill,
            hatch=_HATCHES[rounds % len(_HATCHES)],
            ink="white" if fill in _DARK else "black",
        )
    return looks
