"""Colours and patterns of jobs that are distinguishable with any colour vision.

The seven colours are those of Okabe and Ito ("Color Universal Design", 2008) without black. After
seven jobs they repeat with another pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_DARK = frozenset({"#0072B2", "#009E73", "#D55E00"})
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLook:
    """Fill and pattern of the bars of a job, and the colour of text on them."""

    fill: str
    hatch: str
    ink: str


def job_looks(jobs: Iterable[str]) -> dict[str, JobLook]:
    """Return the look of each job, in the order of the jobs; the looks repeat after 42 jobs."""
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
