"""Experiment d: real programs under both policies, compared with the paper (section 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.report import Section
from wattfold.simulator.papers.slowdown_driven.measured import MeasuredRuns, RealRun
from wattfold.simulator.papers.slowdown_driven.ratios import exactly
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    at_most,
    interval_text,
    near,
)
from wattfold.simulator.results.intervals import Interval, ratio_of_means

NAME = "d"
TITLE = "Real programs under static backfill and sharing (section 4.4), in miniature"
STATIC, SHARED = "fifo-easy", "slowdown-driven"
PUBLISHED = {"makespan_s": 0.93, "response_s": 0.84, "slowdown": 0.84, "energy_j": 0.94}
"""Sharing over static backfill:

7 % less makespan, about 16 % less response and slowdown, 6 % less energy.
"""
WORDS = {
    "makespan_s": "makespan",
    "response_s": "mean response",
    "slowdown": "mean slowdown",
    "energy_j": "energy",
}
_SOURCE = "section 4.4"
_COLUMNS = ("makespan_s", "response_s", "slowdown", "energy_j", "resizes", "committed_w_peak")

Draw = Callable[[MeasuredRuns, Path], list[Path]]


def section(measured: MeasuredRuns, draw: Draw) -> Section:
    """Return the claims on the paper's real run, their runs, and a plot."""
    runs = len(measured.of(SHARED))
    return Section(
        name=NAME,
        title=TITLE,
        judgements=[*(_judged(measured, name) for name in PUBLISHED), _within_budget(measured)],
        table=_table(measured),
        draw=partial(draw, measured),
        seeds=runs,
        how=_how(measured),
        facts={"real": True},
    )


def ratio_of(measured: MeasuredRuns, measure: str) -> Interval:
    """Return a measure with sharing over the measure without, paired by seed."""
    shared, static = (
        [float(getattr(run, measure)) for run in measured.of(policy)] for policy in (SHARED, STATIC)
    )
    return ratio_of_means(shared, static)


def _how(measured: MeasuredRuns) -> str:
    jobs = len(measured.runs[0].jobs)
    text = (
        f"{jobs} OpenMP and MPI programs a run on {measured.nodes} emulated nodes, measured on "
        f"{measured.processor}, {measured.cores} cores, which the nodes share in time. The paper: "
        "2,000 jobs on 49 nodes of 48 cores."
    )
    return f"**Quick: a look, no evaluation.** {text}" if measured.quick else text


def _judged(measured: MeasuredRuns, measure: str) -> Judgement:
    published, interval = PUBLISHED[measure], ratio_of(measured, measure)
    ruling = near(interval, published, 1.0)
    return _judgement(
        f"d.{measure}",
        f"sharing reduces the {WORDS[measure]} by {1 - published:.0%}",
        f"{interval_text(interval, '{:.3f}')} of static backfill",
        ruling,
        interval,
    )


def _within_budget(measured: MeasuredRuns) -> Judgement:
    most = max(run.committed_w_peak / run.budget_w for run in measured.runs)
    return _judgement(
        "d.budget",
        "no run commits more power than there is",
        f"at most {most:.1%} of the budget",
        at_most(exactly(most), 1.0),
        source="not the paper's",
    )


def _judgement(
    key: str,
    text: str,
    said: str,
    ruling: Ruling,
    interval: Interval | None = None,
    source: str = _SOURCE,
) -> Judgement:
    return Judgement(
        claim=Claim(key=key, text=text, source=source),
        measured=said,
        verdict=ruling.verdict,
        why=ruling.why,
        interval=interval,
    )


def _table(measured: MeasuredRuns) -> list[list[object]]:
    def row(run: RealRun) -> list[object]:
        values = (f"{float(getattr(run, name)):.6g}" for name in _COLUMNS)
        return [run.policy, run.seed, len(run.jobs), *values]

    return [["policy", "seed", "jobs", *_COLUMNS], *map(row, measured.runs)]
