"""Screen of `watch`: lines of a given size from the snapshots of the cluster so far.

It only draws; other modules read the stream and the keys. It never has more lines than the
terminal: nodes and jobs that do not fit are counted.
"""

from __future__ import annotations

from collections import deque

from rich.console import Group, RenderableType
from rich.text import Text

from wattfold.coordinator.cli.jobs.lists.job_marks import JobMarks
from wattfold.coordinator.cli.jobs.lists.job_tables import queue_table
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.power_bar import power_bar
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.site.node_columns import cap_uw
from wattfold.coordinator.cli.site.nodes import commit
from wattfold.coordinator.cli.site.power import asleep_count, is_late, share
from wattfold.coordinator.cli.site.power_graph import PowerHistory, power_graph
from wattfold.v1 import coordinator_pb2 as pb

_ENDED_SHOWN = 4
_NODE_CELLS = 46
"""Columns of a node's line without its core map."""
_LEAST_MAP_CELLS = 12
_NARROW = 72
"""Width below which the queue omits the caps and the remaining times, in columns."""


class WatchScreen:
    """The newest snapshot, the history of the power, and the jobs that ended recently."""

    def __init__(self, address: str, how_to_stop: str = "q quits") -> None:
        self._address = address
        self._how_to_stop = how_to_stop
        self._view: pb.ClusterView | None = None
        self._history = PowerHistory()
        self._ended: deque[pb.Job] = deque(maxlen=_ENDED_SHOWN)
        self._marks = JobMarks()
        self._trouble = ""

    def take(self, view: pb.ClusterView) -> None:
        """Apply a snapshot."""
        self._view = view
        self._trouble = ""
        self._history.add(view.time_s, view.power)
        known = {job.job_id for job in self._ended}
        self._ended.extend(
            job for job in view.jobs if job.state in f.ENDED_STATES and job.job_id not in known
        )

    def lose(self, trouble: str) -> None:
        """Record that no snapshots arrive, and why; the last snapshot stays."""
        self._trouble = trouble

    def render(self, width: int, height: int, age_s: float) -> RenderableType:
        """Return the whole screen. `age_s`: seconds since the last snapshot."""
        if self._view is None:
            text = self._trouble or f"waiting for {self._address} ..."
            return Group(Text(text, no_wrap=True, overflow="ellipsis"))
        graph_rows = 8 if height >= 36 else 5 if height >= 22 else 3 if height >= 16 else 0
        free = height - 1 - 2 - graph_rows - 5
        nodes_shown, jobs_shown = _split(max(2, free), len(self._view.nodes), len(self._jobs()))
        parts: list[RenderableType] = [self._header(age_s), *self._bars(width)]
        parts += power_graph(self._history, width, graph_rows) if graph_rows else []
        parts += [Text(), self._nodes(width, nodes_shown), Text(), self._queue(width, jobs_shown)]
        parts.append(self._footer(width, nodes_shown, jobs_shown))
        return Group(*parts)

    def _header(self, age_s: float) -> Text:
        assert self._view is not None
        line = Text("wattfold", style="bold", no_wrap=True, overflow="ellipsis")
        if self._trouble:
            line.append(f"  {f.duration(age_s)} old: {self._trouble}", style="bold red")
        line.append(f"  policy {self._view.power.policy or f.NONE}", style="not bold")
        if any(node.emulated for node in self._view.nodes):
            line.append("  emulated power", style="not bold magenta")
        if sleeping := asleep_count(self._view.power):
            line.append(f"  {sleeping}", style="not bold")
        if self._view.power.pending_budget_uw:
            going = f.power(self._view.power.pending_budget_uw)
            line.append(f"  budget is lowered to {going}", style="not bold yellow")
        if is_late(self._view.power):
            line.append(f"  OVER BY {f.power(self._view.power.over_uw)}", style="bold red")
        if not self._trouble:
            line.append(f"  {self._address}", style="not bold dim")
        return line

    def _bars(self, width: int) -> list[Text]:
        assert self._view is not None
        power = self._view.power
        budget_uw = power.budget_uw
        lines = []
        for name, value_uw, style in (
            ("committed", power.committed_uw, "cyan"),
            ("measured", power.measured_uw, "green"),
        ):
            figures = (
                f" {f.power(value_uw):>9} of {f.power(budget_uw)} {share(value_uw, budget_uw)}"
            )
            cells = max(4, width - 10 - len(figures))
            bar = power_bar(value_uw, budget_uw, cells, style)
            line = Text.assemble(f"{name:<10}", bar, figures)
            line.no_wrap = True
            lines.append(line)
        return lines

    def _nodes(self, width: int, shown: int) -> PlainTable:
        assert self._view is not None
        table = plain_table(
            flexible("NODE"),
            left("STATE"),
            right("CAP W"),
            right("DRAW W"),
            right("COMMIT W"),
            flexible("CORES"),
        )
        cells = max(_LEAST_MAP_CELLS, width - _NODE_CELLS)
        jobs = list(self._view.jobs)
        for node in self._view.nodes[:shown]:
            usable = node.state in (pb.NODE_STATE_UP, pb.NODE_STATE_SILENT)
            note = f.power_brief(node, self._view.time_s) or node.message
            add_row(
                table,
                node.node_id,
                f.styled_node_status(node),
                f.watts(cap_uw(node)),
                f.watts(node.measured_uw),
                commit(node),
                self._marks.core_map(node, jobs, cells) if usable else note,
            )
        return table

    def _queue(self, width: int, shown: int) -> PlainTable:
        assert self._view is not None
        jobs = self._jobs()[:shown]
        marks = {job.job_id: self._marks.mark(job.job_id) for job in jobs if job.shares}
        return queue_table(jobs, self._view.time_s, marks, narrow=width < _NARROW)

    def _jobs(self) -> list[pb.Job]:
        """Return running, then waiting, then recently ended jobs; by age in each group."""
        assert self._view is not None
        alive = [job for job in self._view.jobs if job.state not in f.ENDED_STATES]
        alive.sort(key=lambda job: (not job.shares, job.submitted_at_s, job.job_id))
        return alive + list(self._ended)[::-1]

    def _footer(self, width: int, nodes_shown: int, jobs_shown: int) -> Text:
        assert self._view is not None
        planner = self._view.power.planner
        parts = [*([planner] if planner else []), self._how_to_stop]
        more_nodes = len(self._view.nodes) - nodes_shown
        more_jobs = len(self._jobs()) - jobs_shown
        if more_nodes > 0:
            parts.append(f"{more_nodes} more nodes")
        if more_jobs > 0:
            parts.append(f"{more_jobs} more jobs")
        if self._view.HasField("last_round"):
            last = self._view.last_round
            parts.append(
                f"last plan: {last.solver or last.policy} {last.outcome}, {last.jobs} jobs, "
                f"{last.solve_ns / 1e6:.1f} ms"
            )
        return Text(" · ".join(parts)[:width], style="dim", no_wrap=True, overflow="ellipsis")


def _split(free: int, nodes: int, jobs: int) -> tuple[int, int]:
    """Divide lines between nodes and jobs: unneeded lines of one go to the other."""
    if nodes + jobs <= free:
        return nodes, jobs
    half = free // 2
    if nodes <= half:
        return nodes, free - nodes
    if jobs <= free - half:
        return free - jobs, jobs
    return half, free - half
