"""Observe a run from outside of the services: limits of the nodes, and CPU time of other processes.

The limits are read from the files of the zones, not from the coordinator or an agent. CPU time of
other processes makes the result of a run worthless: emulated nodes get a fixed share of the cores.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.units import UW_PER_W
from wattfold.coordinator.demo.layout import POWERCAP
from wattfold.coordinator.demo.site import DemoSite, SiteError
from wattfold.coordinator.figures.run_record import LimitCurves, LimitPoint, Observation
from wattfold.v1 import coordinator_pb2 as pb

FOREIGN_SHARE_MAX = 0.05
"""Jobs use at most 0.82 of the cores. More foreign CPU time than this slows them measurably."""
_INTERVAL_S = 0.025
_PASS_S_MAX = 0.1
"""A slower pass mixes limits of different instants: a cap could move to another node meanwhile."""
_ONLINE = Path("/sys/devices/system/cpu/online")


def disturbance(share: float) -> str:
    """Return a message about too much foreign CPU time."""
    return (
        f"disturbed: other processes used {share:.0%} of the CPU time "
        f"(limit {FOREIGN_SHARE_MAX:.0%})"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A node: the tree of its power zones, and the power that no limit covers."""

    node_id: str
    zones: Path
    base_uw: int


class ForeignTime:
    """CPU time that other processes than this one and its descendants use from now on."""

    def __init__(self) -> None:
        self._cpus = CpuSet.of(os.sched_getaffinity(0))
        self._start_s = time.monotonic()
        self._start_foreign_s = self._foreign_s(0.0)

    def share(self) -> float:
        """Share of the CPU time of these cores since the beginning, between 0 and 1."""
        elapsed_s = max(time.monotonic() - self._start_s, 1e-3)
        foreign_s = self._foreign_s(elapsed_s) - self._start_foreign_s
        return min(max(foreign_s / (elapsed_s * len(self._cpus)), 0.0), 1.0)

    def _foreign_s(self, elapsed_s: float) -> float:
        """Time that the cores were not idle, less the time of our processes; up to a constant."""
        return elapsed_s * len(self._cpus) - _idle_s(self._cpus) - _tree_s()


def _idle_s(cpus: CpuSet) -> float:
    """Idle time is exact on a kernel that stops its ticks; the time of users is sampled."""
    online = CpuSet.parse(_ONLINE.read_text(encoding="ascii"))
    times = zip(online, psutil.cpu_times(percpu=True), strict=False)
    return float(sum(entry.idle + entry.iowait for cpu, entry in times if cpu in cpus))


def _tree_s() -> float:
    """CPU time of this process and its descendants, with ended ones that were waited for."""
    total_s = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total_s += used.user + used.system + used.children_user + used.children_system
    return total_s


def observer_of(site: DemoSite, nodes: Sequence[pb.Node], budget_uw: int) -> Observer:
    """Return an observer of all nodes of a site. Raises SiteError if a node has no limits."""
    return Observer(
        [
            ObservedNode(
                node_id=node.node_id,
                zones=site.folder / node.node_id / "powercap" if node.emulated else POWERCAP,
                base_uw=node.base_power_uw,
            )
            for node in nodes
        ],
        budget_uw,
    )


class Observer:
    """Observes within a `with` block; then `observation` and `limits` have the results."""

    def __init__(self, nodes: Sequence[ObservedNode], budget_uw: int) -> None:
        self._nodes = tuple(nodes)
        self._budget_uw = budget_uw
        self._files = [_limit_files(node.zones) for node in nodes]
        self._points: list[LimitPoint] = []
        self._samples = self._above = self._peak_uw = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_ended, daemon=True)
        self._foreign_share = 0.0

    def __enter__(self) -> Observer:
        self._foreign = ForeignTime()
        self._start_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._foreign_share = self._foreign.share()

    def observation(self) -> Observation:
        """Figures from the beginning to the end of the block."""
        return Observation(
            foreign_share=self._foreign_share,
            samples=self._samples,
            samples_above=self._above,
            limits_w_peak=self._peak_uw / UW_PER_W,
        )

    def limits(self) -> LimitCurves:
        """Limits of the nodes over the time of the block."""
        names = tuple(node.node_id for node in self._nodes)
        return LimitCurves(nodes=names, points=tuple(self._points))

    def _sample_until_ended(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            start_s = time.monotonic()
            limits_uw = self._read()
            if limits_uw is not None and time.monotonic() - start_s <= _PASS_S_MAX:
                self._take(start_s - self._start_s, limits_uw)

    def _read(self) -> tuple[int, ...] | None:
        """Power that each node may draw; None while a file is being written."""
        try:
            return tuple(
                node.base_uw + sum(_highest_uw(zone) for zone in files)
                for node, files in zip(self._nodes, self._files, strict=True)
            )
        except (OSError, ValueError):
            return None

    def _take(self, time_s: float, limits_uw: tuple[int, ...]) -> None:
        total_uw = sum(limits_uw)
        self._samples += 1
        self._above += total_uw > self._budget_uw
        self._peak_uw = max(self._peak_uw, total_uw)
        watts = tuple(limit / UW_PER_W for limit in limits_uw)
        if not self._points or self._points[-1].node_w != watts:
            self._points.append(LimitPoint(time_s=time_s, node_w=watts))


def _limit_files(root: Path) -> list[list[Path]]:
    """Files with the limits of each package and its DRAM; other zones are parts of these.

    Raises SiteError if there is none.
    """
    name = "intel-rapl:*"
    folders = {path.resolve() for path in [*root.glob(name), *root.glob(f"{name}/{name}")]}
    found: dict[Path, list[Path]] = {}
    for folder in sorted(folders):
        limits = sorted(folder.glob("constraint_*_power_limit_uw"))
        name = (folder / "name").read_text(encoding="ascii") if limits else ""
        if name.startswith(("package", "dram")):
            found[folder] = limits
    if not found:
        raise SiteError(f"{root} has no power zone with a limit")
    return list(found.values())


def _highest_uw(files: Sequence[Path]) -> int:
    return max(int(file.read_text(encoding="ascii")) for file in files)
