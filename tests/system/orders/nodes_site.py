"""A site of unlike emulated nodes whose limits are sampled from before the first contact on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from system.orders import sampler
from system.orders.judge import BudgetOrder, Facts, Machine, Sample, Zone
from system.site.live_site import CPUS, LiveSite, uw, wait_pid_gone

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo.site import NodePlan, SitePlan
from wattfold.v1 import coordinator_pb2 as pb

LEASE_S = 5.0
DEADLINE_S = 9.0
"""Of a lower budget: longer than a lease, so that it is kept without a coordinator as well."""
READY_S = 60.0

_NODE = """base_power_w = {base}
floor_w = {package_min}
dram_floor_w = {dram_min}
emulate = true
[emulation]
a = 1.5
b = 4.0
c = {idle}
package_min_w = {package_min}
package_max_w = {package_max}
dram_min_w = {dram_min}
dram_max_w = {dram_max}
dram_idle_w = 0.5
cpu_share = 0.1
window_ms = 100
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
            base=self.base_w,
            idle=self.package_w[0] - 1,
            package_min=self.package_w[0],
            package_max=self.package_w[1],
            dram_min=self.dram_w[0],
            dram_max=self.dram_w[1],
        )

    def machine(self, node_id: str) -> Machine:
        """The same as its judge sees it."""
        ranges = (self.package_w, self.dram_w)
        zones = tuple(Zone(uw_min=uw(low), uw_max=uw(high)) for low, high in ranges)
        return Machine(node_id=node_id, base_uw=uw(self.base_w), zones=zones)


SHAPES = (
    Shape(base_w=10, package_w=(9, 45), dram_w=(2, 5)),
    Shape(base_w=14, package_w=(12, 60), dram_w=(3, 8)),
    Shape(base_w=6, package_w=(5, 25), dram_w=(1, 3)),
)
"""Floors: 62 W together. Greatest: 176 W."""
BUDGETS_W = (85.0, 108.0, 130.0)


def plan() -> SitePlan:
    """The site as it starts."""
    nodes = [
        NodePlan(node_id=f"n{index}", cpus=CPUS, settings=shape.settings())
        for index, shape in enumerate(SHAPES)
    ]
    return SitePlan(
        nodes=tuple(nodes),
        budget_w=BUDGETS_W[1],
        policy="parm-wse",
        coordinator_settings=_COORDINATOR,
    )


class OrdersSite(LiveSite):
    """A site whose parts end and start in any order; what is done is noted in ``facts``."""

    def __init__(self, logs: Path) -> None:
        super().__init__(plan(), logs)
        self.facts = Facts()
        self.samples_file = logs / "samples"
        self.machines = [
            shape.machine(node.node_id) for shape, node in zip(SHAPES, self.plan.nodes, strict=True)
        ]
        self._sampler: subprocess.Popen[bytes] | None = None

    def start_coordinator(self) -> None:
        if self._sampler is None:
            # The agents are ready; nobody has spoken to them.
            self._start_sampler()
        super().start_coordinator()

    def stop(self) -> None:
        self.end_sampling()
        super().stop()

    def end_sampling(self) -> None:
        """The last sample is taken before the site is."""
        if self._sampler is not None and self._sampler.stdin is not None:
            self._sampler.stdin.close()
            self._sampler.wait()

    def samples(self) -> Iterator[Sample]:
        """All that was read."""
        zones = 2 * len(self.machines)
        for line in self.samples_file.read_text().splitlines():
            at_ns, *values = map(int, line.split())
            yield Sample(
                at_ns=at_ns, limits_uw=tuple(values[:zones]), energy_uj=tuple(values[zones:])
            )

    def _start_sampler(self) -> None:
        now_ns = time.monotonic_ns()
        self.facts.budgets.append(
            BudgetOrder(called_ns=now_ns, kept_from_ns=now_ns, budget_uw=uw(self.plan.budget_w))
        )
        self.facts.note(now_ns, "first contact")
        zones = []
        for node in self.plan.nodes:
            root = self.folder / node.node_id / "powercap" / "intel-rapl:0"
            zones += [str(root), str(root / "intel-rapl:0:0")]
        self._sampler = subprocess.Popen(
            [sys.executable, "-S", sampler.__file__, str(self.samples_file), *zones],
            stdin=subprocess.PIPE,
        )

    # The coordinator.

    @property
    def coordinated(self) -> bool:
        """Whether there is a coordinator."""
        return self.coordinator.poll() is None

    def end_coordinator(self, number: signal.Signals) -> None:
        """Ends it, orderly or not."""
        self.coordinator.send_signal(number)
        self.coordinator.wait(READY_S)

    def set_budget(self, budget_w: float) -> None:
        """Sets it and notes from when on it must be kept. Raises CliError."""
        called_ns = time.monotonic_ns()
        self.client.set_budget(uw(budget_w), int(DEADLINE_S * 1e9))
        self.facts.budgets.append(
            BudgetOrder(
                called_ns=called_ns,
                kept_from_ns=time.monotonic_ns() + int(DEADLINE_S * 1e9),
                budget_uw=uw(budget_w),
            )
        )

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
        """SIGTERM."""
        agent = self.agent(index)
        agent.terminate()
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
