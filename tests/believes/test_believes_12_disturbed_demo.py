"""The demonstration notices other load, and reads the limits of the nodes from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from system.site.live_site import wait_until

from wattfold.coordinator.demo.observer import ForeignTime, ObservedNode, Observer
from wattfold.coordinator.demo.site import SiteError

BURNT_S = 1.0
TOLERANCE_S = 0.3
BURN = f"import time\nwhile time.process_time() < {BURNT_S}: pass\n"
IN_A_CHILD = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]])\n"
ORPHAN = (
    "import os, sys\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "exec(sys.argv[1])\n"
    "open(sys.argv[2], 'w').close()\n"
)


def used_s() -> float:
    """CPU time of everything on the machine, as the kernel counts it."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


class Measured:
    """Foreign CPU time of a block, and what the whole machine used, both in seconds."""

    def __enter__(self) -> Measured:
        self._before_s, self._start_s = used_s(), time.monotonic()
        self._foreign = ForeignTime()
        return self

    def __exit__(self, *_: object) -> None:
        share = self._foreign.share()
        cores = len(os.sched_getaffinity(0))
        self.foreign_s = share * cores * (time.monotonic() - self._start_s)
        self.all_s = used_s() - self._before_s


def test_cpu_time_of_our_descendants_is_not_foreign() -> None:
    with Measured() as measured:
        subprocess.run([sys.executable, "-c", BURN], check=True)
        subprocess.run([sys.executable, "-c", IN_A_CHILD, BURN], check=True)
        still_there = subprocess.Popen(
            [sys.executable, "-c", BURN + "print(flush=True)\ninput()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert still_there.stdout is not None
        still_there.stdout.readline()
    still_there.communicate(b"\n")
    assert measured.foreign_s <= measured.all_s - 3 * BURNT_S + TOLERANCE_S


def test_cpu_time_of_others_is_foreign(tmp_path: Path) -> None:
    mark = tmp_path / "burnt"
    with Measured() as measured:
        subprocess.run([sys.executable, "-c", ORPHAN, BURN, str(mark)], check=True)
        wait_until("the orphan has burnt", mark.exists)
    assert measured.foreign_s >= BURNT_S - TOLERANCE_S


def tree(root: Path, package_w: float, dram_w: float) -> None:
    """Zones of a package and its DRAM; the cores are a part of the package."""
    package = root / "intel-rapl:0"
    zones = (
        (package, "package-0", package_w),
        (package / "intel-rapl:0:0", "core", 999.0),
        (package / "intel-rapl:0:1", "dram", dram_w),
    )
    for folder, name, watts in zones:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        limit_to(folder, watts)
    (root / "intel-rapl:0:1").symlink_to(package / "intel-rapl:0:1")


def limit_to(zone: Path, watts: float) -> None:
    new = zone / "new"
    new.write_text(f"{watts * 1e6:.0f}\n")
    new.rename(zone / "constraint_0_power_limit_uw")


def test_limits_above_the_budget_are_seen(tmp_path: Path) -> None:
    nodes = []
    for name in ("n0", "n1"):
        tree(tmp_path / name, package_w=30.0, dram_w=5.0)
        nodes.append(ObservedNode(node_id=name, zones=tmp_path / name, base_uw=10_000_000))
    with Observer(nodes, 90_000_000) as observer:
        wait_until("a sample", lambda: observer.observation().samples)
        limit_to(tmp_path / "n1" / "intel-rapl:0", 30.5)
        wait_until("a sample above", lambda: observer.observation().samples_above)
    seen, limits = observer.observation(), observer.limits()
    assert 0 < seen.samples_above < seen.samples
    assert seen.limits_w_peak == 90.5
    assert limits.nodes == ("n0", "n1")
    assert [point.node_w for point in limits.points] == [(45.0, 45.0), (45.0, 45.5)]


def test_a_node_without_limits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SiteError, match="has no power zone with a limit"):
        Observer([ObservedNode(node_id="n0", zones=tmp_path, base_uw=0)], 1)
