"""Progress of a run as lines, for output that is not a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from wattfold.v1 import coordinator_pb2 as pb

_EVERY_S = 5.0


def lines(
    console: Console, total: int, time_left: Callable[[], str] | None = None
) -> Callable[[pb.ClusterView, int], None]:
    """Return a function that takes each view and the number of ended jobs.

    It prints a line every five seconds.
    """
    last_s = 0.0

    def show(view: pb.ClusterView, ended: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _EVERY_S:
            last_s = time.monotonic()
            running = sum(job.state == pb.JOB_STATE_RUNNING for job in view.jobs)
            console.print(
                f"   {ended}/{total} ended, {running} running; committed "
                f"{view.power.committed_uw / 1e6:.1f} W, measured "
                f"{view.power.measured_uw / 1e6:.1f} W of {view.power.budget_uw / 1e6:.1f} W"
                + (f"; {time_left()}" if time_left else ""),
                soft_wrap=True,
            )

    return show
