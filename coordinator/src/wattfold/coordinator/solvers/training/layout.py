"""Conversion of a problem to the two sequences of numbers that the loops use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wattfold.coordinator.solvers.training.loop_state import LoopLayout
from wattfold.coordinator.solvers.training.problem import Floats, Ints, TrainingProblem
from wattfold.coordinator.solvers.training.recreate_loops import RUINED


def _swaps(weight: Floats, swap: float) -> Floats:
    known = np.maximum(weight, 1e-12)
    mean = float(known.mean()) if len(known) else 1.0
    probability: Floats = np.minimum(swap * mean / known, 1.0)
    return probability


def laid_out(
    problem: TrainingProblem, listed: Ints, row: Callable[[Any], Any], *, swap: float, seed: int
) -> tuple[LoopLayout, Any, Any]:
    """Return the sequences of the loops, and their layout. ``listed``: the jobs in order."""
    jobs, options, nodes = problem.jobs, problem.options, problem.nodes
    count, many = len(problem), len(nodes.kind)
    kinds = int(max(nodes.kind.max(initial=-1), options.kind.max(initial=-1))) + 1
    gpus = max(int(nodes.free[:, 0].max(initial=0)), 1)
    in_order = np.sort(nodes.kind)
    chance = (seed * 2654435761 + 12345) % 0xFFFFFFFF + 1
    whole = {
        "must": jobs.must[listed],
        "first": options.first[:-1][listed],
        "end": options.first[1:][listed],
        "meets": options.meets[listed],
        "by_worth": np.lexsort((-jobs.postponed_eur[listed], ~jobs.must[listed])),
        "kind": options.kind,
        "node": options.node,
        "amounts": options.amounts.ravel(),
        "charge": options.power_uw,
        "kind_of": nodes.kind,
        "kind_from": np.searchsorted(in_order, np.arange(kinds + 1)),
        "capacity": nodes.free.ravel(),
        "power_left": [problem.power_uw],
        "chance": [chance],
        **{name: np.zeros(1) for name in ("left_uw", "waiting", "changes")},
        **{name: np.zeros(kinds) for name in ("opened", "shuts")},
        **{name: np.zeros(many) for name in ("crowd", "listed", "entry", "open", "shut", "named")},
        **{name: np.zeros(count) for name in _OF_JOBS},
        "free": np.zeros(nodes.free.size),
        "on": np.zeros(many * gpus),
        "batch": np.zeros(count + 2 * RUINED * gpus + 8),
        "cursor": np.zeros(count),
    }
    real = {
        "postponed": jobs.postponed_eur[listed],
        # Must-run jobs come first and are never swapped: they keep their own resources.
        "swap": np.where(jobs.must, 0.0, _swaps(jobs.weight, swap))[listed],
        "time": options.time_s,
        "turn": options.turn_s,
        "cost": options.cost_eur,
        "own": options.own_eur,
        "all_postponed": [jobs.postponed_eur.sum()],
        "first_s": np.zeros(many),
        "first_eur": np.zeros(many),
        "entered": np.zeros(count),
        "rest": np.zeros(count + 1),
    }
    ints, int_at = _joined(whole, np.int64)
    reals, real_at = _joined(real, np.float64)
    sizes = {
        "jobs": count,
        "nodes": many,
        "resources": nodes.free.shape[1],
        "kinds": kinds,
        "gpus": gpus,
    }
    return LoopLayout(**sizes, **int_at, **real_at), row(ints), row(reals)


_OF_JOBS = (
    "option",
    "host",
    "waits",
    "place",
    "order",
    "best_option",
    "best_host",
    "changed",
    "was_option",
    "was_at",
    "marked",
)


def _joined(parts: dict[str, Any], kind: Any) -> tuple[Any, dict[str, int]]:
    """Return all parts in one array, and the start of each part."""
    begins = np.concatenate(([0], np.cumsum([len(part) for part in parts.values()])))
    flat = np.concatenate([np.asarray(part, dtype=kind) for part in parts.values()])
    return flat, {name: int(at) for name, at in zip(parts, begins, strict=False)}
