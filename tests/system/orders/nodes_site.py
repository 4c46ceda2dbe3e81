"""A site of unlike nodes, all limits of which are on record from before the first contact on."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from contract.agent.behaving_trees import READY_S as MOUNTED_S
from contract.agent.behaving_trees import why_no_fuse
from system.orders import watched_tree
from system.orders.budgets import Budgets
from system.orders.judge import Facts, Machine, Sample, Zone
from system.orders.state_folders import StateFolders
from system.site.calendars import Calendar
from system.site.live_site import CPUS, LiveSite, uw, wait_pid_gone, wait_until

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo.site import NodePlan, SiteError, SitePlan
from wattfold.v1 import coordinator_pb2 as pb

LEASE_S = 5.0
READY_S = 60.0

_STATE_KIB = 512
"""Size of the file system of the state of an agent, which orders fill."""
_BURST = 1.2
"""Short-term limits that nodes boot with, as a multiple of their long-term limits."""

_NODE = """base_power_w = {base}
package_min_w = {package_min}
dram_min_w = {dram_min}
gpus = "off"
masks = "affinity"
"""
_FIXTURE = """title = "A node of the trial"
source = "trial"
load = [1.0, "assumed"]
package_min_w = [{package_min}, "assumed"]
dram_min_w = [{dram_min}, "assumed"]
"""
_ZONE = """
[[zone]]
folder = "{folder}"
name = ["{name}", "assumed"]
enabled = [1, "assumed"]
energy_uj = [1000000, "assumed"]
energy_range_uj = [262143328850, "assumed"]
idle_uw = [{idle}, "assumed"]
full_uw = [{full}, "assumed"]
[zone.constraint.long_term]
limit_uw = [{full}, "assumed"]
max_uw = [{full}, "assumed"]
window_us = [93696, "assumed"]
clip_uw_min = [{idle}, "assumed"]
clip_shown = [true, "assumed"]
"""
_SHORT = """[zone.constraint.short_term]
limit_uw = [{burst}, "assumed"]
max_uw = [{burst}, "assumed"]
window_us = [1952, "assumed"]
clip_uw_min = [{idle}, "assumed"]
clip_shown = [true, "assumed"]
"""
_COORDINATOR = f"""lease_s = {LEASE_S}
telemetry_interval_s = 0.5
solver_deadline_s = 5.0
term_grace_s = 1.0
[parm]
resize_interval_s = 0.0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A kind of node, W."""

    base_w: float
    package_w: tuple[float, float]
    dram_w: tuple[float, float]

    def settings(self) -> str:
        """Its lines in the configuration of the agent."""
        return _NODE.format(
            base=self.base_w, package_min=self.package_w[0], dram_min=self.dram_w[0]
        )

    def fixture(self) -> str:
        """Its hardware: the package has a short-term limit above the long-term one."""
        text = _FIXTURE.format(package_min=self.package_w[0], dram_min=self.dram_w[0])
        low, high = map(uw, self.package_w)
        text += _ZONE.format(folder="intel-rapl:0", name="package-0", idle=low, full=high)
        text += _SHORT.format(idle=low, burst=round(high * _BURST))
        low, high = map(uw, self.dram_w)
        return text + _ZONE.format(folder="intel-rapl:0:0", name="dram", idle=low, full=high)

    def machine(self, node_id: str) -> Machine:
        """The same as its judge sees it."""
        package = Zone(uw_min=uw(self.package_w[0]), uw_max=uw(self.package_w[1] * _BURST))
        dram = Zone(uw_min=uw(self.dram_w[0]), uw_max=uw(self.dram_w[1]))
        return Machine(node_id=node_id, base_uw=uw(self.base_w), zones=(package, dram))


SHAPES = (
    Shape(base_w=10, package_w=(9, 45), dram_w=(2, 5)),
    Shape(base_w=14, package_w=(12, 60), dram_w=(3, 8)),
    Shape(base_w=6, package_w=(5, 25), dram_w=(1, 3)),
)
"""Floors: 62 W together. Greatest: 202 W, in bursts."""
BUDGETS_W = (85.0, 108.0, 130.0)


def plan(more: str = "") -> SitePlan:
    """The site as it starts, with more settings of its coordinator."""
    nodes = [
        NodePlan(node_id=f"n{index}", cpus=CPUS, settings=shape.settings())
        for index, shape in enumerate(SHAPES)
    ]
    return SitePlan(
        nodes=tuple(nodes),
        budget_w=BUDGETS_W[1],
        policy="parm-wse",
        coordinator_settings=_COORDINATOR + more,
    )


class OrdersSite(LiveSite):
    """A site whose parts end and start in any order; what is done is noted in ``facts``."""

    def __init__(self, logs: Path, *, sets_calendars: bool = True, own: SitePlan | None = None):
        super().__init__(own or plan(), logs)
        self.sets_calendars = sets_calendars  # Processes with such calendars start slower.
        self.facts = Facts()
        self.machines = [
            shape.machine(node.node_id) for shape, node in zip(SHAPES, self.plan.nodes, strict=True)
        ]
        self._zones = Path(tempfile.mkdtemp(prefix="wf-zones-"))
        self.budgets = Budgets(self.facts, lambda: self.client)
        self.states = StateFolders(self)
        self.head_calendar = Calendar(self._zones / "head.calendar")
        self.calendars = [
            Calendar(self._zones / f"{node.node_id}.calendar") for node in self.plan.nodes
        ]
        self._trees: list[subprocess.Popen[bytes]] = []
        self._disks: list[Path] = []
        self._end_ns = 0

    def start_coordinator(self, *more: str) -> None:
        if not self.facts.budgets:
            # The agents are ready; nobody has spoken to them.
            self.budgets.begin(uw(self.plan.budget_w))
            self.facts.note(time.monotonic_ns(), "first contact")
        with self._faked(self.head_calendar):
            super().start_coordinator(*more)

    def _faked(self, calendar: Calendar) -> contextlib.AbstractContextManager[None]:
        return calendar.faked() if self.sets_calendars else contextlib.nullcontext()

    def stop(self) -> None:
        self.states.end_rivals()
        super().stop()
        while self._trees:
            tree = self._trees.pop()
            tree.terminate()
            tree.wait(READY_S)
            assert tree.stdin is not None
            assert tree.stdout is not None
            tree.stdin.close()
            tree.stdout.close()
        for disk in self._disks:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        self._disks.clear()
        for left in (self.folder, self._zones):
            shutil.rmtree(left, ignore_errors=True)

    def end_sampling(self) -> None:
        """Nothing counts from now on: the site is about to be stopped."""
        self._end_ns = time.monotonic_ns()

    def _start_agent(self, node: NodePlan) -> subprocess.Popen[bytes]:
        index = self.plan.nodes.index(node)
        zones = self._mount(SHAPES[index], node.node_id)
        self._mount_state(self.folder / node.node_id / "state")
        with self._faked(self.calendars[index]):
            return super()._start_agent(
                replace(node, settings=f'powercap_root = "{zones}"\n{node.settings}')
            )

    def start_agent(self, index: int) -> None:
        with self._faked(self.calendars[index]):
            super().start_agent(index)

    def _mount(self, shape: Shape, node_id: str) -> Path:
        """The zones of a node, through FUSE."""
        if why := why_no_fuse():
            raise SiteError(f"the zones of a node cannot be mounted: {why}")
        zones, fixture = self._zones / node_id, self._zones / f"{node_id}.toml"
        zones.mkdir()
        fixture.write_text(shape.fixture())
        record = self.logs / f"{node_id}.limits"
        arguments = [str(path) for path in (fixture, zones, record)]
        tree = subprocess.Popen(
            [sys.executable, "-m", watched_tree.__name__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(watched_tree.__file__).parents[2],
        )
        self._trees.append(tree)
        assert tree.stdout is not None
        if not select.select([tree.stdout], [], [], MOUNTED_S)[0] or not tree.stdout.readline():
            raise SiteError(f"the zones of {node_id} were not mounted")
        return zones

    def _mount_state(self, folder: Path) -> None:
        """A small file system of its own for the state of an agent; as root only."""
        if not self.disks_fill:
            return
        folder.mkdir(mode=0o700, parents=True)
        options = f"size={_STATE_KIB}k,mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
        self._disks.append(folder)

    @property
    def disks_fill(self) -> bool:
        """Whether the disk of a node can be filled here."""
        return os.geteuid() == 0

    def samples(self) -> Iterator[Sample]:
        """What held after each write to any zone of any node, from the first contact on."""
        lines: list[tuple[int, int, list[int]]] = []
        for index, node in enumerate(self.plan.nodes):
            for line in (self.logs / f"{node.node_id}.limits").read_text().splitlines():
                at_ns, _, *values = map(int, line.split())
                lines.append((at_ns, index, values))
        limits: list[list[int]] = [[], [], []]
        energy: list[list[int]] = [[], [], []]
        begin_ns, before = self.facts.events[0][0], True
        for at_ns, index, values in sorted(lines):
            if self._end_ns and at_ns > self._end_ns:
                return
            if before and at_ns > begin_ns:
                before = False
                yield _sample(begin_ns, limits, energy)
            zones = self.machines[index].zones
            limits[index] = [
                zone.uw_max if value == watched_tree.FREE else value
                for zone, value in zip(zones, values[: len(zones)], strict=True)
            ]
            energy[index] = values[len(zones) :]
            if not before:
                yield _sample(at_ns, limits, energy)

    def writes(self) -> int:
        """How often a limit was written."""
        logs = [self.logs / f"{node.node_id}.limits" for node in self.plan.nodes]
        return sum(int(log.read_text().splitlines()[-1].split()[1]) for log in logs)

    def limits_uw(self, index: int) -> dict[str, int]:
        """The higher of the limits of each zone of a node, as its files show them."""
        root = self._zones / self.plan.nodes[index].node_id
        found = {"package": root / "intel-rapl:0", "dram": root / "intel-rapl:0:0"}
        return {
            name: max(int(file.read_text()) for file in zone.glob("constraint_*_power_limit_uw"))
            for name, zone in found.items()
        }

    def set_counters(self, index: int, word: str) -> None:
        """Sets the energy counters of a node ``back`` to 0 or ``ahead``."""
        words = self._trees[index].stdin
        assert words is not None
        words.write(f"{word}\n".encode())
        words.flush()

    # The coordinator.

    def step_head(self, ahead_s: int) -> None:
        """Sets the calendar of the head node; a coordinator that runs has noticed it then."""
        told = "event=calendar_stepped"
        before = self.log().count(told)
        stepped = ahead_s != self.head_calendar.ahead_s
        self.head_calendar.set_ahead(ahead_s)
        self.budgets.step(ahead_s)
        if stepped and self.coordinated:
            wait_until("its log line", lambda: self.log().count(told) > before)

    def log(self) -> str:
        """What the coordinators have logged."""
        return (self.logs / "coordinator.log").read_text()

    @property
    def coordinated(self) -> bool:
        """Whether there is a coordinator."""
        return self.coordinator.poll() is None

    def end_coordinator(self, number: signal.Signals) -> None:
        """Ends it, orderly or not."""
        self.coordinator.send_signal(number)
        self.coordinator.wait(READY_S)

    def fill_disk(self, index: int) -> None:
        """Leaves no room for the state of an agent."""
        ballast = self._ballast(index).open("wb", buffering=0)
        with ballast as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def free_disk(self, index: int) -> None:
        """There is room again."""
        self._ballast(index).unlink()

    def disk_is_full(self, index: int) -> bool:
        """Whether the disk of a node was filled."""
        return self._ballast(index).exists()

    def _ballast(self, index: int) -> Path:
        return self.folder / self.plan.nodes[index].node_id / "state" / "ballast"

    def look(self) -> list[pb.Node]:
        """The nodes as the coordinator shows them; none without it."""
        if not self.coordinated:
            return []
        try:
            return list(self.client.list_nodes().nodes)
        except CliError:
            return []

    # The nodes.

    def served(self, index: int) -> bool:
        """Whether a node has an agent."""
        return self.agent(index).poll() is None

    def stop_agent(self, index: int) -> None:
        """SIGTERM. An agent waits until the ends of its jobs are on record, so on a full disk."""
        agent = self.agent(index)
        agent.terminate()
        if self.disk_is_full(index):
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(2 * LEASE_S)
            self.free_disk(index)
        agent.wait(READY_S)
        agent.stdout.close()  # type: ignore[union-attr]

    def kill_guard(self, index: int) -> int:
        """kill -9; its number, 0 if there is none."""
        pid = self._guard_pid(index)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid

    def _guard_pid(self, index: int) -> int:
        record = self.folder / self.plan.nodes[index].node_id / "state" / "guard.json"
        try:
            return int(json.loads(record.read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return 0

    def kill_both(self, index: int) -> None:
        """Agent and guard, and a guard that was about to take its place."""
        self.agent(index).send_signal(signal.SIGSTOP)
        guard = self.kill_guard(index)
        self.kill_agent(index)
        if guard:
            wait_pid_gone(guard)

    def hang_agent(self, index: int) -> None:
        """Stops the agent where it is and kills its guard; it is to be killed later."""
        self.agent(index).send_signal(signal.SIGSTOP)
        if guard := self.kill_guard(index):
            wait_pid_gone(guard)

    def left(self, index: int) -> bool:
        """Whether a node has been given back: its original limits stand then."""
        record = self.folder / self.plan.nodes[index].node_id / "state" / "originals.json"
        return bool(json.loads(record.read_text())["left"])

    def at_floor(self, index: int) -> bool:
        """Whether the limits of a node are the least its zones take."""
        return list(self.limits_uw(index).values()) == [
            z.uw_min for z in self.machines[index].zones
        ]


def _sample(at_ns: int, limits: list[list[int]], energy: list[list[int]]) -> Sample:
    return Sample(
        at_ns=at_ns,
        limits_uw=tuple(uw for node in limits for uw in node),
        energy_uj=tuple(uj for node in energy for uj in node),
    )
