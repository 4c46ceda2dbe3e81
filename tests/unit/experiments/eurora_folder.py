"""A folder in the format of Eurora's published traces, with a few made-up jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from unit.workloads.trace_files import line, trace

JOBS = 24
QUEUES = ("debug", "parallel", "np_longpar", "R")
SHAPES = ("1;16;0;0;4194304#", "1;8;2;0;1048576#", "40;4;0;1;1048576#41;4;0;1;1048576#")
FIRST = datetime(2014, 3, 31, 12)  # noqa: DTZ001 - as in traces


def published(folder: Path, *, jobs: int = JOBS, nodes: int = 2) -> Path:
    """Two traces that share half of their jobs, a few nodes of each kind, and queues."""
    (folder / "traces").mkdir(parents=True)
    lines = [_job(number) for number in range(jobs)]
    trace(folder / "traces", *lines[: 3 * jobs // 4], name="hist_30_a.log_crypt")
    trace(folder / "traces", *lines[jobs // 4 :], name="hist_30_b.log_crypt")
    kinds = ["16 0 2 33554432 0"] * nodes + ["16 2 0 33554432 0"] * nodes
    trace(folder, *(f"{place} {kind}" for place, kind in enumerate(kinds)), name="nodes_64")
    waits = ("debug 3600", "parallel 21600", "np_longpar 86400", "reservation 1800")
    trace(folder, *waits, name="system_queues")
    return folder


def _job(number: int) -> str:
    submit = FIRST + timedelta(minutes=15 * number)
    start = submit + timedelta(seconds=30)
    return line(
        1000 + number,
        queue=QUEUES[number % len(QUEUES)],
        submit=f"{submit}",
        start=f"{start}",
        end=f"{start + timedelta(minutes=5 + 7 * (number % 5))}",
        walltime="01:00",
        units=SHAPES[number % len(SHAPES)],
    )
