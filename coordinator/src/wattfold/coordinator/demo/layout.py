"""Division of this machine into the nodes of the demonstration, and their power.

With eight cores or more every node has cores of its own. On a smaller machine the nodes share all
cores in time. Each node gets a fixed share of them through the emulated frequency, so that together
they never need more than the machine has.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.demo.site import NodePlan
from wattfold.v1 import coordinator_pb2 as pb

POWERCAP = Path("/sys/class/powercap")
PROVISIONAL_W = 1e6

NODES = 4
OWN_CORES_MIN = 8
HEADROOM = 0.82
"""Share of the machine that jobs may use; the rest is for coordinator, agents and the terminal."""

BASE_W, FLOOR_W, PACKAGE_W, DRAM_W = 10.0, 9.0, 45.0, 5.0
BUDGET_SHARE = 0.52
"""Budget above idle power, as a share of the dynamic power of all nodes."""

_EMULATED = """base_power_w = {base}
floor_w = {floor}
dram_floor_w = 2
package_idle_w = 8
emulate = true
[emulation]
a = 1.5
b = 4.0
c = 8.0
f_low_ghz = 1.2
f_high_ghz = 2.6
package_min_w = {floor}
package_max_w = {package}
dram_min_w = 2
dram_max_w = {dram}
dram_idle_w = 1
dram_dynamic_w = 3
cpu_share = {share:.4f}
window_ms = 250
throttle = "{throttle}"
"""


class LayoutError(Exception):
    """This machine cannot be divided as requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The nodes, and the CPU seconds per second of one core at full power."""

    nodes: tuple[NodePlan, ...]
    cores_per_node: int
    cpu_share: float
    budget_w: float
    emulated: bool


def emulated(throttle: str = "auto") -> Layout:
    """Return four nodes with emulated power zones."""
    cpus = CpuSet.of(os.sched_getaffinity(0))
    own = len(cpus) >= OWN_CORES_MIN
    if own:
        each = len(cpus) // NODES
        ordered = list(cpus)
        slices = [CpuSet.of(ordered[i * each : (i + 1) * each]) for i in range(NODES)]
        share = HEADROOM
    else:
        slices = [cpus] * NODES
        share = HEADROOM / NODES
    nodes = []
    for index, cores in enumerate(slices):
        settings = emulated_zones(share, throttle)
        nodes.append(NodePlan(node_id=f"n{index}", cpus=cores, settings=settings))
    idle_w = NODES * (BASE_W + FLOOR_W + DRAM_W)
    return Layout(
        nodes=tuple(nodes),
        cores_per_node=len(slices[0]),
        cpu_share=share,
        budget_w=round(idle_w + BUDGET_SHARE * NODES * (PACKAGE_W - FLOOR_W)),
        emulated=True,
    )


def emulated_zones(cpu_share: float, throttle: str = "auto") -> str:
    """Return the agent configuration for emulated zones of a node with this share of its cores."""
    return _EMULATED.format(
        base=BASE_W,
        floor=FLOOR_W,
        package=PACKAGE_W,
        dram=DRAM_W,
        share=cpu_share,
        throttle=throttle,
    )


def real(root: Path = POWERCAP) -> Layout:
    """Return this machine as a node with its own RAPL zones. Raises LayoutError without zones.

    The budget is set after the agent has reported its zones (`budget_of`).
    """
    limits = sorted(root.glob("intel-rapl:*/constraint_0_power_limit_uw"))
    if not limits:
        raise LayoutError(f"there are no power zones with limits below {root}; run without --real")
    denied = [path for path in limits if not os.access(path, os.W_OK)]
    if denied:
        raise LayoutError(f"{denied[0]} is not writable for this account; run as root")
    cpus = CpuSet.of(os.sched_getaffinity(0))
    settings = f'powercap_root = "{root}"\n'
    return Layout(
        nodes=(NodePlan(node_id="local", cpus=cpus, settings=settings),),
        cores_per_node=len(cpus),
        cpu_share=1.0,
        budget_w=PROVISIONAL_W,
        emulated=False,
    )


def budget_of(nodes: Sequence[pb.Node], floor_uw: int) -> int:
    """Return a budget between the minimum and the maximum power of the nodes, in microwatts."""
    packages = [z for node in nodes for z in node.zones if z.name.startswith("package")]
    dynamic_uw = sum(zone.cap_uw_max - zone.floor_uw for zone in packages)
    return floor_uw + round(BUDGET_SHARE * dynamic_uw)


def processor() -> str:
    """Return the name of the processor of this machine."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    names = (line.partition(":")[2].strip() for line in info if line.startswith("model name"))
    return next(names, platform.machine())
