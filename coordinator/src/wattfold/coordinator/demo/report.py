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

from wattfold.coordinator.figures.run_record import (
    BudgetPoint,
    CoreSpan,
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
    ("resizes", lambda r: r.resizes, "{:.0f}"),
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
    results: tuple[PolicyResult, ...]
    runs: tuple[PolicyRun, ...]

    @property
    def budget_kept(self) -> bool:
        """Whether neither committed nor measured power was ever above the budget."""
        return all(
            max(one.committed_w_peak, one.measured_w_peak) <= one.budget_w for one in self.results
        )


def report_of(
    results: Sequence[PolicyResult],
    runs: Sequence[PolicyRun],
    *,
    scale: float,
    nodes: int,
    emulated: bool,
) -> DemoReport:
    """The report of runs that ended now on this machine."""
    return DemoReport(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.release()}",
        date=time.strftime("%Y-%m-%d"),
        scale=scale,
        nodes=nodes,
        emulated=emulated,
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
        found["results"] = tuple(PolicyResult(**one) for one in found["results"])
        found["runs"] = tuple(_run(one) for one in found["runs"])
        return DemoReport(**found)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold the results of a demonstration: {error}") from error


def _run(found: dict[str, Any]) -> PolicyRun:
    return PolicyRun(
        policy=found["policy"],
        budget=tuple(BudgetPoint(**one) for one in found["budget"]),
        power=tuple(PowerPoint(**one) for one in found["power"]),
        spans=tuple(CoreSpan(**one) for one in found["spans"]),
    )


def title(report: DemoReport) -> str:
    """Return the title of the picture: the jobs, the budget and the makespans."""
    *baselines, parm = report.results
    others = " and ".join(f"{one.makespan_s:.0f} s" for one in baselines)
    name = NAMES.get(parm.policy, parm.policy)
    text = f"{parm.jobs} jobs under a power budget of {parm.budget_w:.0f} W: {name} finishes"
    text += f" after {parm.makespan_s:.0f} s"
    return text + (f", the baselines after {others}" if baselines else "")


def markdown(report: DemoReport) -> str:
    """The table for the documents, and a line about the machine."""
    *baselines, parm = report.results
    names = [NAMES.get(one.policy, one.policy) for one in report.results]
    ratio = f"{names[-1]} / best baseline"
    lines = [f"| | {' | '.join(names)} | {ratio} |", f"|---{'|---' * (len(names) + 1)}|"]
    for what, value, shape in _MEASURES:
        cells = [shape.format(value(one)) for one in report.results]
        best = min(map(value, baselines), default=0.0)
        lines.append(_row(what, cells, f"{value(parm) / best:.2f}" if best > 0 else ""))
    for what, value, shape in _PEAKS:
        lines.append(_row(what, [shape.format(value(one)) for one in report.results], ""))
    lines.append(_row("budget", [f"{one.budget_w:.1f} W" for one in report.results], ""))
    kind = "emulated nodes" if report.emulated else "node with its own power zones"
    kept = "kept" if report.budget_kept else "exceeded"
    about = (
        f"{parm.jobs} jobs on {report.nodes} {kind}; {report.processor} with {report.cores} cores, "
        f"{report.system}, {report.date}; amount of work {report.scale:g}; the budget was {kept}."
    )
    return "\n".join([*lines, "", about, ""])


def _row(what: str, cells: Sequence[str], ratio: str) -> str:
    return f"| {what} | {' | '.join(cells)} | {ratio} |"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("model name")]
    return names[0].strip() if names else platform.processor() or platform.machine()
