"""Draw the pictures of the policies for the documentation site, in `docs/images/policies`.

    python scripts/documents/policy_pictures.py [POLICY ...]

All policies for training jobs plan the jobs in `docs/site/trainings`, and all others plan the same
generated jobs on another machine. A picture shows the jobs above the committed power. Without
names, all policies are drawn, which takes some minutes.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from generated import registry
from site_pages import PICTURES, SITE

LEFT, RIGHT, TOP = 70, 780, 24
HEIGHT, POWER_TOP, POWER_BOTTOM = 240, 290, 370


@dataclass(frozen=True)
class Workload:
    """Jobs and machine of a picture."""

    run: tuple[str, ...]
    """Arguments of `wattfold`."""
    jobs: int
    span_s: int
    """End of the time axis in seconds. It is the same in all pictures, for comparison."""
    budget_w: int
    size_max: int
    """Size of the largest job in nodes or GPUs."""


BATCH = Workload(
    (
        *("--model", "lublin", "--jobs", "40", "--gamma", "0.2", "--cut-sizes"),
        *("--nodes", "16", "--budget", "1.6kW"),
    ),
    jobs=40,
    span_s=144_000,
    budget_w=1600,
    size_max=8,
)
"""Jobs arrive fast enough that some of them wait."""
TRAININGS = Workload(
    (
        *("--training", str(SITE / "trainings" / "jobs.csv")),
        *("--epoch-times", str(SITE / "trainings" / "times.csv")),
        *("--machine", str(SITE / "trainings" / "gpus.toml"), "--restart-cost", "1m"),
    ),
    jobs=24,
    span_s=72_000,
    budget_w=2032,
    size_max=2,
)
"""Training jobs with due dates, on four nodes with unlike GPUs."""
FAMILIES_OF_TRAININGS = ("andreas", "edf")
SHORT_SEARCH = ["--set", "constraint.evaluations=8"]
"""Arguments for the family `constraint`, because its search takes most of the time."""

Row = dict[str, str]


def x(seconds: float, of: Workload) -> float:
    """Return the horizontal place of a time."""
    return LEFT + (RIGHT - LEFT) * seconds / of.span_s


def y(watts: float, of: Workload) -> float:
    """Return the vertical place of a power in the lower graph."""
    return POWER_BOTTOM - (POWER_BOTTOM - POWER_TOP) * watts / (1.125 * of.budget_w)


def workload(name: str) -> Workload:
    """Return the jobs of the picture of a policy."""
    family = next(
        entry.family.name for entry in registry().entries() if entry.variant.simulator_name == name
    )
    return TRAININGS if family in FAMILIES_OF_TRAININGS else BATCH


def job_marks(jobs: list[Row], of: Workload) -> list[str]:
    """Return the wait, the run and the due date of each job, in order of submission."""
    marks = []
    row = HEIGHT / of.jobs
    ordered = sorted(jobs, key=lambda job: (float(job["submit_s"]), int(job["job_id"])))
    for number, job in enumerate(ordered):
        middle = TOP + row * number + row / 2
        begin, start, end = (x(float(job[key]), of) for key in ("submit_s", "start_s", "end_s"))
        shade = 0.35 + 0.65 * int(job["size_first"]) / of.size_max
        marks.append(f'<path class="wait" d="M{begin:.1f} {middle:g}H{start:.1f}"/>')
        marks.append(
            f'<rect class="run" opacity="{shade:.2f}" x="{start:.1f}" y="{middle - 2:g}" '
            f'width="{max(end - start, 1):.1f}" height="4"/>'
        )
        if due_s := job.get("due_s"):
            marks.append(
                f'<path class="due" d="M{x(float(due_s), of):.1f} {middle - row / 2:g}v{row:g}"/>'
            )
    return marks


def power_marks(series: list[Row], of: Workload) -> list[str]:
    """Return the committed power and the budget."""
    last = float(series[-1]["time_s"])
    first = series[0]
    path = f"M{x(float(first['time_s']), of):.1f} {y(float(first['committed_w']), of):.1f}"
    for row in series[1:]:
        path += f"H{x(float(row['time_s']), of):.1f}V{y(float(row['committed_w']), of):.1f}"
    budget = y(of.budget_w, of)
    return [
        f'<path class="power" d="{path}"/>',
        f'<path class="budget" d="M{LEFT} {budget:.1f}H{x(last, of):.1f}"/>',
        f'<text x="{LEFT - 6}" y="{budget + 4:.1f}" text-anchor="end">'
        f"{of.budget_w / 1000:.1f} kW</text>",
        f'<text x="{LEFT - 6}" y="{POWER_BOTTOM + 4}" text-anchor="end">0</text>',
    ]


def axis(of: Workload) -> list[str]:
    """Return the axis of time, with a mark every 5 hours."""
    marks = [f'<path class="axis" d="M{LEFT} {POWER_BOTTOM}H{RIGHT}"/>']
    for hours in range(0, of.span_s // 3600 + 1, 5):
        at = x(hours * 3600, of)
        marks.append(f'<path class="grid" d="M{at:.1f} {TOP}V{POWER_BOTTOM}"/>')
        marks.append(
            f'<text x="{at:.1f}" y="{POWER_BOTTOM + 16}" text-anchor="middle">{hours} h</text>'
        )
    return marks


def title(name: str, jobs: list[Row]) -> str:
    """Return the results of a run in a line."""
    mean_h = sum(float(job["response_s"]) for job in jobs) / len(jobs) / 3600
    text = f"{name}: mean completion {mean_h:.2f} h"
    if "tardiness_s" in jobs[0]:
        late_h = sum(float(job["weight"]) * float(job["tardiness_s"]) for job in jobs) / 3600
        return f"{text}, weighted tardiness {late_h:.1f} h"
    return f"{text}, last end at {max(float(job['end_s']) for job in jobs) / 3600:.1f} h"


def picture(name: str, jobs: list[Row], series: list[Row]) -> str:
    """Return the picture of a run as SVG."""
    of = workload(name)
    style = (
        "text{font:12px sans-serif;fill:#333}.wait{stroke:#b06000;stroke-width:1}"
        ".run{fill:#1f5fa8}.power{fill:none;stroke:#1f5fa8;stroke-width:1.2}"
        ".budget{stroke:#b00020;stroke-dasharray:5 3}.axis{stroke:#333}.grid{stroke:#ddd}"
        ".due{stroke:#b00020;stroke-width:1.5}"
    )
    body = [*axis(of), *job_marks(jobs, of), *power_marks(series, of)]
    shown = title(name, jobs)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 395" role="img">\n'
        f"<title>{shown}</title>\n<style>{style}</style>\n"
        '<rect width="800" height="395" fill="#fff"/>\n'
        f'<text x="{LEFT}" y="15">{shown}</text>\n'
        f'<text x="8" y="{TOP + 12}">jobs</text>\n<text x="8" y="{POWER_TOP - 6}">power</text>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def drawn(names: list[str]) -> dict[str, str]:
    """Simulate the policies and return their pictures. Raises CalledProcessError."""
    found = {}
    for of in (BATCH, TRAININGS):
        found |= run_of([name for name in names if workload(name) == of], of)
    return found


def run_of(names: list[str], of: Workload) -> dict[str, str]:
    """Simulate the policies with one workload and return their pictures."""
    if not names:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        options = [word for name in names for word in ("--policy", name)]
        options += SHORT_SEARCH if "constraint" in names else []
        command = "from wattfold.coordinator.cli.main import cli; cli()"
        words = ["simulate", *of.run, "--no-figures", "--json", *options, "--out", folder]
        subprocess.run(
            [sys.executable, "-c", command, *words], check=True, stdout=subprocess.DEVNULL
        )
        return {
            name: picture(
                name,
                rows(Path(folder) / f"{name}-seed0" / "jobs.csv"),
                rows(Path(folder) / f"{name}-seed0" / "series.csv"),
            )
            for name in names
        }


def rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(names: list[str]) -> None:
    """Draw the pictures of these policies, or of all policies without a name."""
    PICTURES.mkdir(exist_ok=True)
    for name, svg in drawn(names or list(registry().simulator_names())).items():
        (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
