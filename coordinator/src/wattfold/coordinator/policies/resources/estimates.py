"""Run times for planning: from a prediction, the user's estimate, a profile or the time limit.

The user's estimate (`submit --estimate`) is the time at the maximum size and full power. A profile
gives the shape of the curve. A job with neither is planned with its time limit, as in Slurm, or
with one hour if it has no limit. Its curve is half as sensitive to size and frequency as possible
(`default_profile`) until its own progress is known. The job is assumed to need that time on nodes
of any kind, each at its own full power. A profile that states its measured cap range is mapped to
the range of the node (`PassProfile.on`). The watts of other profiles apply to all nodes.

A job ends at its time limit at the latest, so no planned run time exceeds the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import NodeKind, NodeSpec
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.power.charge import held_uw
from wattfold.coordinator.models.forecast import lasting_ns
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit, default_profile
from wattfold.coordinator.models.power_curve import PowerCurve

DEFAULT_TIME_S = 3600.0
LIMIT = "the time limit of"
REMEMBERED = 4096
"""Number of cached estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A profile scaled to this job, and a description of its source."""

    profile: PassProfile
    source: str


def estimate(view: JobView, kind: NodeKind) -> Estimate:
    """Return the profile for planning a job on nodes of this kind. Results are cached."""
    spec = view.spec
    stated = _stated(view)
    if view.profile is None:
        return _default(spec.app, spec.unit, spec.size_max, stated, kind_curve(kind))
    profile = view.profile.on(w_from_uw(kind.least_uw), w_from_uw(kind.most_uw))
    return _profiled(profile, spec.app, spec.size_max, stated, spec.limit_ns)


def run_time_s(view: JobView, kinds: Iterable[NodeKind], size: int, level_uw: int) -> float:
    """Return the time of the whole job on nodes of these kinds, in seconds.

    Each kind runs at the level that it really holds. The slowest node decides.
    """
    return max(
        estimate(view, kind).profile.time_s(size, w_from_uw(held_uw(kind, level_uw)))
        for kind in kinds
    )


def duration_ns(view: JobView, kinds: Iterable[NodeKind], size: int, level_uw: int) -> int:
    """Return the expected time of the whole job: as stated, or `run_time_s` within its limit.

    A running job that has exceeded this time gets more in steps (`models.forecast`).
    """
    spec = view.spec
    lasts_ns = _stated(view).time_ns or within_limit(spec, run_time_s(view, kinds, size, level_uw))
    if view.over_ns <= 0 or view.planned_ns:
        return lasts_ns
    return lasting_ns(lasts_ns, lasts_ns + view.over_ns, 0, spec.limit_ns)


def asked_ns(view: JobView, kinds: Iterable[NodeKind], size: int, level_uw: int) -> int:
    """Return `duration_ns` without predictions, from the user's estimate."""
    return duration_ns(_as_asked(view), kinds, size, level_uw)


def longest_ns(view: JobView, kinds: Iterable[NodeKind]) -> int:
    """Return the time of the whole job at its minimum size and level, on the slowest nodes.

    Predictions are ignored.
    """
    view, known = _as_asked(view), list(kinds)
    level_uw = min((kind.lowest_uw for kind in known), default=0)
    seconds = run_time_s(view, known, view.spec.min_size, level_uw) if known else 0.0
    return max(within_limit(view.spec, seconds), _stated(view).time_ns)


def shortest_ns(view: JobView) -> int:
    """Return the time of the whole job at its maximum size and full power, on any nodes."""
    stated_ns, spec = _stated(view).time_ns, view.spec
    if stated_ns or view.profile is None:
        return stated_ns or round(DEFAULT_TIME_S * 1e9)
    return within_limit(spec, view.profile.time_s(spec.size_max, view.profile.p_high_w))


def within_limit(spec: JobSpec, seconds: float) -> int:
    """Return a run time in nanoseconds, or the time limit of the job if that is less."""
    time_ns = round(seconds * 1e9)
    return min(time_ns, spec.limit_ns) if spec.limit_ns else time_ns


def bounded(given: Assignment, spec: JobSpec) -> Assignment:
    """Return an assignment with an expected end at the time limit of the job at the latest."""
    if not spec.limit_ns or given.expected_total_s * 1e9 <= spec.limit_ns:
        return given
    return replace(given, expected_total_s=spec.limit_ns / 1e9)


class _Stated(NamedTuple):
    """A run time at the maximum size and full power (0 = none) and its source."""

    time_ns: int
    whose: str


def _stated(view: JobView) -> _Stated:
    """Return the prediction, the user's estimate, or the time limit of a job without a profile."""
    spec, limit_ns = view.spec, view.spec.limit_ns
    if view.planned_ns:
        stated = _Stated(view.planned_ns, "a prediction of")
    elif spec.time_ns:
        stated = _Stated(spec.time_ns, "the user's estimate of")
    elif view.profile is None:
        return _Stated(limit_ns, LIMIT)
    else:
        return _Stated(0, "")
    return _Stated(limit_ns, LIMIT) if 0 < limit_ns < stated.time_ns else stated


def _as_asked(view: JobView) -> JobView:
    return replace(view, planned_ns=0) if view.planned_ns else view


@lru_cache(maxsize=REMEMBERED)
def _default(
    app: str, unit: SizeUnit, size_max: int, stated: _Stated, curve: PowerCurve
) -> Estimate:
    time_s = stated.time_ns / 1e9
    profile = default_profile(curve, size_max, time_s or DEFAULT_TIME_S, app=app, unit=unit)
    said = (
        f"{stated.whose} {time_s:.0f} s"
        if time_s
        else f"an assumed run time of {DEFAULT_TIME_S:.0f} s"
    )
    return Estimate(profile=profile, source=f"default profile with {said}")


@lru_cache(maxsize=REMEMBERED)
def _profiled(
    profile: PassProfile, app: str, size_max: int, stated: _Stated, limit_ns: int
) -> Estimate:
    at_best_s = profile.time_s(size_max, profile.p_high_w)
    if not stated.time_ns and 0 < limit_ns < at_best_s * 1e9:
        stated = _Stated(limit_ns, LIMIT)
    time_s = stated.time_ns / 1e9
    if not time_s:
        return Estimate(profile=profile, source=f"profile of {app}")
    return Estimate(
        profile=profile.scaled(time_s / at_best_s),
        source=f"profile of {app}, scaled to {stated.whose} {time_s:.0f} s",
    )


def node_curve(node: NodeSpec) -> PowerCurve:
    """Return the `kind_curve` of a node."""
    return kind_curve(node.kind)


@lru_cache(maxsize=REMEMBERED)
def kind_curve(kind: NodeKind) -> PowerCurve:
    """Return power by frequency for nodes of this kind.

    The curve is the model that the agents report, or else a cubic through the cap range. In the
    cubic the frequency is only a scale: 1 at the minimum cap and 2 at the maximum, with all growth
    in the cubic term.
    """
    if kind.curve is not None:
        return PowerCurve(
            a=kind.curve.a,
            b=kind.curve.b,
            c=kind.curve.c,
            f_low_ghz=kind.curve.f_low_ghz,
            f_high_ghz=kind.curve.f_high_ghz,
        )
    low_w, high_w = w_from_uw(kind.least_uw), w_from_uw(kind.most_uw)
    # F(1) = a + b + c = low, F(2) = 8 a + 2 b + c = high, with a small linear term b.
    b = 0.05 * low_w
    a = max((high_w - low_w - b) / 7, 1e-3)
    c = max(low_w - a - b, 0.01 * low_w)
    return PowerCurve(a=a, b=b, c=c, f_low_ghz=1.0, f_high_ghz=2.0)
