"""Plots of Figures 1 to 8 of the paper of SD-Policy.

The paper's text has no numbers for the bars of its own figures; a dash marks the slowdown that the
text states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wattfold.simulator.figures.heat_maps import draw_category_ratios
from wattfold.simulator.figures.style import (
    figure_of,
    only_value_grid,
    save_figure,
)
from wattfold.simulator.papers.samples import MissingError
from wattfold.simulator.papers.slowdown_driven import curie, gain
from wattfold.simulator.papers.slowdown_driven.case import (
    BASELINES,
    DYNAMIC,
    LIMITED,
    STATIC,
    WORTH,
    policy_name,
)
from wattfold.simulator.papers.slowdown_driven.evaluation import Findings
from wattfold.simulator.papers.slowdown_driven.limits import GAINS, POLICIES
from wattfold.simulator.papers.slowdown_driven.ratios import ratio
from wattfold.simulator.papers.slowdown_driven.settings import GAINS_TRIED
from wattfold.simulator.results.intervals import Interval

_SHOWN = (
    ("makespan_s", "makespan"),
    ("response_s", "mean response"),
    ("slowdown", "mean slowdown"),
)
_COLORS = ("#56B4E9", "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
"""Colors of Okabe and Ito."""


def draw(findings: Findings, folder: Path) -> list[Path]:
    """Draw the plots of an experiment. Returns the files. Raises OSError and LogError."""
    paths = []
    for name, drawn in _DRAWERS[findings.family.name](findings):
        path = folder / f"{name}.png"
        save_figure(drawn, path)
        paths.append(path)
    return paths


def _limits(findings: Findings) -> list[tuple[str, Figure]]:
    runs = [(policy, "ideal", policy_name(policy)) for policy in (*POLICIES, WORTH)]
    title = _titled(findings, "MAX_SLOWDOWN, over static backfill")
    return [("figures-1-to-3-limits", _bars(findings, title, runs, marks=True))]


def _models(findings: Findings) -> list[tuple[str, Figure]]:
    runs = [(DYNAMIC, model, f"DynAVGSD, {model}") for model in ("ideal", "worst-case")]
    title = _titled(findings, "Models of run times, over static backfill")
    return [("figure-8-models", _bars(findings, title, runs, marks=False))]


def _curie(findings: Findings) -> list[tuple[str, Figure]]:
    plan, samples = findings.plan, findings.samples
    if curie.WORKLOAD not in plan.workloads:
        return []
    found = []
    for passes in BASELINES:
        [shared] = plan.cases(curie.WORKLOAD, passes, curie.POLICY)
        [static] = plan.cases(curie.WORKLOAD, passes, STATIC)
        try:
            ours, theirs = (curie.categories_of(samples, case) for case in (shared, static))
            days = [(curie.day_series(samples, case)) for case in (shared, static)]
        except MissingError:
            continue
        title = _titled(findings, f"Curie, MAXSD 10 / {passes} static backfill")
        found.append((f"figures-4-to-6-{passes}", draw_category_ratios(ours, theirs, title)))
        found.append((f"figure-7-{passes}", _days(title, *days)))
    return found


def _gains(findings: Findings) -> list[tuple[str, Figure]]:
    """Draw slowdown over static backfill by the gain, a line for each log and kind of passes."""
    plan, samples = findings.plan, findings.samples
    if not plan.chosen_on:
        return []
    try:
        rows = [gain.ratios_of(plan, samples, one) for one in GAINS_TRIED]
    except MissingError:
        return []
    names = [f"{workload}, {passes}" for workload in plan.chosen_on for passes in BASELINES]
    with figure_of(4.0, _titled(findings, "Worth it by its gain, over static backfill")) as figure:
        axes = figure.subplots()
        for place, (name, values) in enumerate(zip(names, zip(*rows, strict=True), strict=True)):
            axes.plot(range(len(rows)), values, "o-", color=_COLORS[place], label=name)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_xticks(range(len(rows)), [f"{one:g}" for one in GAINS_TRIED])
        axes.set_xlabel("minimum reduction of the predicted slowdown")
        axes.set_ylabel("mean slowdown, ratio")
        axes.legend(frameon=False)
    return [("gain", figure)]


def _bars(
    findings: Findings, title: str, runs: Sequence[tuple[str, str, str]], *, marks: bool
) -> Figure:
    """Draw a row for each kind of passes, a panel for each measure, a group for each workload."""
    with figure_of(6.4, title) as figure:
        panels = figure.subplots(len(BASELINES), len(_SHOWN), squeeze=False)
        for row, passes in zip(panels, BASELINES, strict=True):
            for axes, (measure, name) in zip(row, _SHOWN, strict=True):
                _groups(axes, findings, passes, measure, runs)
                axes.set_title(f"{name}, {passes}", loc="left")
                if marks and passes == LIMITED and measure == "slowdown":
                    _published(axes, findings)
        figure.legend(
            *panels[0][0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=6,
            frameon=False,
        )
    return figure


def _groups(
    axes: Axes, findings: Findings, passes: str, measure: str, runs: Sequence[tuple[str, str, str]]
) -> None:
    plan, width = findings.plan, 0.8 / len(runs)
    for place, (policy, model, label) in enumerate(runs):
        for group, workload in enumerate(plan.workloads):
            static = plan.cases(workload, passes, STATIC)
            cases = plan.cases(workload, passes, policy, model)
            try:
                interval = ratio(findings.samples, cases, static, measure)
            except MissingError:
                continue
            axes.bar(
                group + (place - (len(runs) - 1) / 2) * width,
                interval.mean,
                width * 0.92,
                color=_COLORS[place],
                yerr=_error(interval),
                error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#555555"},
                label=label if group == 0 else None,
            )
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(plan.workloads)), plan.workloads, fontsize=8)
    only_value_grid(axes)


def _published(axes: Axes, findings: Findings) -> None:
    for group, workload in enumerate(findings.plan.workloads):
        axes.hlines(1 - GAINS[workload], group - 0.45, group + 0.45, color="black", linestyle="--")


def _days(title: str, shared: dict[str, list[float]], static: dict[str, list[float]]) -> Figure:
    with figure_of(4.0, title) as figure:
        axes = figure.subplots()
        axes.plot(static["day"], static["slowdown"], color="#D55E00", label="static")
        axes.plot(shared["day"], shared["slowdown"], color="#0072B2", label="MAXSD 10")
        axes.set_xlabel("day of submission")
        axes.set_ylabel("mean slowdown")
        axes.set_ylim(bottom=0)
        right = axes.twinx()
        right.bar(shared["day"], shared["guests"], 1.0, color="#BBBBBB", alpha=0.7)
        right.set_ylabel("jobs started with mates (columns)")
        axes.set_zorder(right.get_zorder() + 1)
        axes.patch.set_visible(False)
        axes.legend(frameon=False)
    return figure


def _titled(findings: Findings, title: str) -> str:
    plan = findings.plan
    note = "logs, and 95 % intervals over "
    note += f"{len(plan.seeds)} seeds of drawn workloads" if len(plan.seeds) > 1 else "one seed"
    if plan.quick:
        note = "QUICK: the first jobs of each workload, not the evaluation"
    return f"{title}\n{note}"


def _error(interval: Interval) -> list[list[float]]:
    """Return the distances below and above the mean; zeros without an interval."""
    if interval.count < 2:
        return [[0.0], [0.0]]
    return [[interval.mean - interval.low], [interval.high - interval.mean]]


_DRAWERS: dict[str, Callable[[Findings], list[tuple[str, Figure]]]] = {
    "a": _limits,
    "b": _curie,
    "c": _models,
    "gain": _gains,
}
