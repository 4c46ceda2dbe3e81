"""What a policy assumes of a job's run time: its profile, the user's word, or a stated default.

The user's estimate, where there is one, is the time at the greatest size and full power; a profile
gives the shape of the curve. A job with neither is taken for one of an hour, half as sensitive to
size and frequency as possible (`default_profile`), until its own progress says more. It is taken
to need that time on nodes of any kind, each at its own full power; what a profile says of caps is
of the processors it was measured on, which it does not name, and counts for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.charge import held_uw
from wattfold.coordinator.core.job import SizeUnit
from wattfold.coordinator.core.node import NodeKind, NodeSpec
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.models.pass_model import PassProfile, default_profile
from wattfold.coordinator.models.power_curve import PowerCurve

DEFAULT_TIME_S = 3600.0
REMEMBERED = 4096
"""Jobs whose estimates are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A profile scaled to this job, and in words where it comes from."""

    profile: PassProfile
    source: str


def estimate(view: JobView, kind: NodeKind) -> Estimate:
    """The profile to plan a job with on such nodes. Remembered."""
    spec, foretold = view.spec, bool(view.planned_ns)
    time_ns = view.planned_ns or spec.time_ns
    if view.profile is None:
        curve = kind_curve(kind)
        return _default(spec.app, spec.unit, spec.size_max, time_ns, curve, foretold)
    return _profiled(view.profile, spec.app, spec.size_max, time_ns, foretold)


def run_time_s(view: JobView, kinds: Iterable[NodeKind], size: int, level_uw: int) -> float:
    """Time of the whole job on nodes of these kinds, at the level that each really holds, s.

    The slowest node decides.
    """
    return max(
        estimate(view, kind).profile.time_s(size, w_from_uw(held_uw(kind, level_uw)))
        for kind in kinds
    )


def duration_ns(view: JobView, kinds: Iterable[NodeKind], size: int, level_uw: int) -> int:
    """How long the whole job is expected to take: predicted, its user's word, or `run_time_s`."""
    known_ns = view.planned_ns or view.spec.time_ns
    return known_ns or round(run_time_s(view, kinds, size, level_uw) * 1e9)


def asked_ns(view: JobView, kinds: Iterable[NodeKind], size: int, level_uw: int) -> int:
    """`duration_ns` by its user's word, whatever is predicted."""
    return duration_ns(_as_asked(view), kinds, size, level_uw)


def longest_ns(view: JobView, kinds: Iterable[NodeKind]) -> int:
    """How long the whole job takes at its least size and the least level, on the slowest nodes.

    By its user's word, whatever is predicted.
    """
    view, known = _as_asked(view), list(kinds)
    level_uw = min((kind.floor_uw for kind in known), default=0)
    seconds = run_time_s(view, known, view.spec.least_size, level_uw) if known else 0.0
    return max(round(seconds * 1e9), view.spec.time_ns)


def _as_asked(view: JobView) -> JobView:
    return replace(view, planned_ns=0) if view.planned_ns else view


@lru_cache(maxsize=REMEMBERED)
def _default(
    app: str, unit: SizeUnit, size_max: int, time_ns: int, curve: PowerCurve, foretold: bool
) -> Estimate:
    stated_s = time_ns / 1e9
    profile = default_profile(curve, size_max, stated_s or DEFAULT_TIME_S, app=app, unit=unit)
    whose = _whose(foretold)
    said = (
        f"{whose} {stated_s:.0f} s"
        if stated_s
        else f"an assumed run time of {DEFAULT_TIME_S:.0f} s"
    )
    return Estimate(profile=profile, source=f"default profile with {said}")


@lru_cache(maxsize=REMEMBERED)
def _profiled(
    profile: PassProfile, app: str, size_max: int, time_ns: int, foretold: bool
) -> Estimate:
    stated_s = time_ns / 1e9
    if not stated_s:
        return Estimate(profile=profile, source=f"profile of {app}")
    at_best_s = profile.time_s(size_max, profile.p_high_w)
    return Estimate(
        profile=profile.scaled(stated_s / at_best_s),
        source=f"profile of {app}, scaled to {_whose(foretold)} {stated_s:.0f} s",
    )


def _whose(foretold: bool) -> str:
    return "a prediction of" if foretold else "the user's estimate of"


def node_curve(node: NodeSpec) -> PowerCurve:
    """`kind_curve` of a node."""
    return kind_curve(node.kind)


@lru_cache(maxsize=REMEMBERED)
def kind_curve(kind: NodeKind) -> PowerCurve:
    """Power by frequency of such nodes: what their agents say, or a cubic through the cap range.

    Without a model the frequency is only a scale: 1 at the least cap and 2 at the greatest, all
    growth in the cubic term.
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
