"""Results of a demonstration: one file of figures, and the table and the picture made from it."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wattfold.coordinator.demo.layout import processor
from wattfold.coordinator.demo.observer import FOREIGN_SHARE_MAX
from wattfold.coordinator.figures.run_record import (
    BudgetPoint,
    CoreSpan,
    LimitCurves,
    LimitPoint,
    Observation,
    PolicyResult,
    PolicyRun,
    PowerPoint,
)

RESULTS, TABLE, PICTURE = "results.json", "demo.md", "demo.png"
NAMES = {
    "fifo-easy": "FIFO + backfill",
    "easy-uniform": "FIFO + backfill, one cap",
    "parm-wse": "PARM",
}
"""Names of the policies for readers who do not know them."""

_MEASURES: tuple[tuple[str, Callable[[PolicyResult], float], str], ...] = (
    ("mean completion time", lambda r: r.mean_completion_s, "{:.1f} s"),
    ("makespan", lambda r: r.makespan_s, "{:.1f} s"),
    ("energy", lambda r: r.energy_j / 1e3, "{:.2f} kJ"),
)
_PEAKS: tuple[tuple[str, Callable[[PolicyResult], float], str], ...] = (
    ("peak committed power", lambda r: r.committed_w_peak, "{:.1f} W"),
    ("peak measured power", lambda r: r.measured_w_peak, "{:.1f} W"),
    ("peak of the limits in files", lambda r: r.observed.limits_w_peak, "{:.1f} W"),
    ("resizes", lambda r: r.resizes, "{:.0f}"),
    ("CPU time of other processes", lambda r: r.observed.foreign_share * 100, "{:.1f} %"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """A demonstration: where and when it ran, and what each policy did. The last one is PARM."""

    processor: str
    cores: int
    system: str
    date: str
    scale: float
    nodes: int
    emulated: bool
    profiles_foreign_share: float
    """Share of foreign CPU time while the profiles were measured."""
    results: tuple[PolicyResult, ...]
    runs: tuple[PolicyRun, ...]

    @property
    def budget_kept(self) -> bool:
        """Whether committed power, measured power and all samples were within the budget."""
        return all(
            max(run.committed_w_peak, run.measured_w_peak) <= run.budget_w
            and run.observed.samples > 0
            and not run.observed.samples_above
            for run in self.results
        )

    @property
    def foreign_share(self) -> float:
        """Highest share of foreign CPU time in a run, or while the profiles were measured."""
        shares = (run.observed.foreign_share for run in self.results)
        return max(self.profiles_foreign_share, *shares)

    @property
    def disturbed(self) -> bool:
        """Whether other processes used too much CPU time for a comparison."""
        return self.foreign_share > FOREIGN_SHARE_MAX


def report_of(
    results: Sequence[PolicyResult],
    runs: Sequence[PolicyRun],
    *,
    scale: float,
    nodes: int,
    emulated: bool,
    profiles_foreign_share: float,
) -> DemoReport:
    """The report of runs that ended now on this machine."""
    return DemoReport(
        processor=processor(),
        cores=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.release()}",
        date=time.strftime("%Y-%m-%d"),
        scale=scale,
        nodes=nodes,
        emulated=emulated,
        profiles_foreign_share=profiles_foreign_share,
        results=tuple(results),
        runs=tuple(runs),
    )


def write(report: DemoReport, folder: Path) -> None:
    """Writes the figures, then the table and the picture from that file."""
    path = folder / RESULTS
    path.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    stored = read(path)
    (folder / TABLE).write_text(markdown(stored), encoding="utf-8")
    # matplotlib takes a second to load: not before it is needed.
    from wattfold.coordinator.figures.power_timeline import save_power_timeline

    runs = [replace(run, policy=NAMES.get(run.policy, run.policy)) for run in stored.runs]
    save_power_timeline(folder / PICTURE, runs, title(stored))


def read(path: Path) -> DemoReport:
    """The report in a file that `write` made. Raises ValueError for another file."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found["results"] = tuple(_result(one) for one in found["results"])
        found["runs"] = tuple(_run(one) for one in found["runs"])
        return DemoReport(**found)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold the results of a demonstration: {error}") from error


def _result(found: dict[str, Any]) -> PolicyResult:
    return PolicyResult(**found | {"observed": Observation(**found["observed"])})


def _limits(found: dict[str, Any]) -> LimitCurves:
    points = (
        LimitPoint(time_s=point["time_s"], node_w=tuple(point["node_w"]))
        for point in found["points"]
    )
    return LimitCurves(nodes=tuple(found["nodes"]), points=tuple(points))


def _run(found: dict[str, Any]) -> PolicyRun:
    return PolicyRun(
        policy=found["policy"],
        budget=tuple(BudgetPoint(**one) for one in found["budget"]),
        power=tuple(PowerPoint(**one) for one in found["power"]),
        spans=tuple(CoreSpan(**one) for one in found["spans"]),
        limits=_limits(found["limits"]),
    )


def title(report: DemoReport) -> str:
    """Return the title of the picture: the jobs, the budget and the makespans."""
    *baselines, parm = report.results
    if report.disturbed:
        return (
            f"{parm.jobs} jobs under a power budget of {parm.budget_w:.0f} W. DISTURBED: other "
            f"processes used up to {report.foreign_share:.0%} of the CPU time"
        )
    others = " and ".join(f"{one.makespan_s:.0f} s" for one in baselines)
    name = NAMES.get(parm.policy, parm.policy)
    text = f"{parm.jobs} jobs under a power budget of {parm.budget_w:.0f} W: {name} finishes"
    text += f" after {parm.makespan_s:.0f} s"
    return text + (f", the baselines after {others}" if baselines else "")


def warning(report: DemoReport) -> str:
    """Return what readers of a disturbed report must know."""
    return (
        f"Disturbed: other processes used up to {report.foreign_share:.0%} of the CPU time of "
        f"these cores, more than {FOREIGN_SHARE_MAX:.0%}. Times and energy of the policies cannot "
        "be compared. Run the demonstration again on an idle machine."
    )


def budget_sentence(report: DemoReport) -> str:
    """Return whether the budget was kept, and in how many samples."""
    seen = [run.observed for run in report.results]
    samples = sum(run.samples for run in seen)
    above = sum(run.samples_above for run in seen)
    if above:
        peak_w = max(run.limits_w_peak for run in seen)
        budget_w = report.results[-1].budget_w
        return (
            f"The limits of the nodes exceeded the budget in {above:,} of {samples:,} samples: "
            f"up to {peak_w:.1f} W of {budget_w:.1f} W."
        )
    if not samples:
        return "The limits of the nodes were never read, so nothing is known about the budget."
    if not report.budget_kept:
        return "Committed or measured power exceeded the budget: see the table."
    return f"The limits of the nodes were within the budget in all {samples:,} samples."


def markdown(report: DemoReport) -> str:
    """The table for the documents, and a line about the machine."""
    *baselines, parm = report.results
    names = [NAMES.get(one.policy, one.policy) for one in report.results]
    compared = f"{names[-1]} / best baseline"
    lines = [f"| | {' | '.join(names)} | {compared} |", f"|---{'|---' * (len(names) + 1)}|"]
    for what, value, shape in _MEASURES:
        cells = [shape.format(value(one)) for one in report.results]
        best = min(map(value, baselines), default=0.0)
        ratio = f"{value(parm) / best:.2f}" if best > 0 else ""
        lines.append(_row(what, cells, "disturbed" if report.disturbed else ratio))
    for what, value, shape in _PEAKS:
        lines.append(_row(what, [shape.format(value(one)) for one in report.results], ""))
    lines.append(_row("budget", [f"{one.budget_w:.1f} W" for one in report.results], ""))
    kind = "emulated nodes" if report.emulated else "node with its own power zones"
    about = (
        f"{parm.jobs} jobs on {report.nodes} {kind}; {report.processor} with {report.cores} cores, "
        f"{report.system}, {report.date}; amount of work {report.scale:g}. "
        f"{budget_sentence(report)}"
    )
    notes = [f"**{warning(report)}**", ""] if report.disturbed else []
    return "\n".join([*notes, *lines, "", about, ""])


def _row(what: str, cells: Sequence[str], ratio: str) -> str:
    return f"| {what} | {' | '.join(cells)} | {ratio} |"
