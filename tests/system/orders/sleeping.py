"""A site of orders whose nodes sleep, and the machines that its programs switch.

A program only leaves its order in a file. The trial carries it out at its next look: a node that is
switched off loses its agent and its guard, a node that is switched on gets its agent after a while,
too late, or never. What a machine draws is known at each moment: its power asleep from the moment
on when it is off, and the most that it can draw from then on when it is switched on, until its
agent starts and limits hold.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from system.orders.accidents import Choice
from system.orders.nodes_site import OrdersSite, plan
from system.site.live_site import uw

from wattfold.coordinator.demo.site import SitePlan
from wattfold.v1 import coordinator_pb2 as pb

ASLEEP_W, BOOT_W, BOOT_LIMIT_S = 3.0, 95.0, 12
"""A booting node may draw the most of any shape (94 W)."""
BUDGETS_W = (108.0, 130.0, 165.0)
_BOOTS_S = (1.0, 2.0, 4.0, 4.0, 16.0, 0.0)
"""Times of boots: of usual ones, of one that is late, and of one that fails (0)."""
PROGRAM = """#!/bin/sh
# usage: switch FOLDER off|on|status SECONDS NODE
if [ "$2" = status ]; then exec cat "$1/$4.power"; fi
echo "$2" > "$1/$4.part.$$" && mv "$1/$4.part.$$" "$1/$4.order"
"""
_POWER = """[power]
suspend = "{program} off"
resume = "{program} on"
status = "{program} status"
account = "{account}"
asleep_w = {asleep}
boot_w = {boot}
boot_s = {limit}
boots_max = 2
awake_min_s = 2
decide = true
"""


@dataclass(slots=True)
class Switched:
    """The power of a machine: off, or on; ``agent_s`` is when its agent starts (0 = never)."""

    off: bool = False
    boots: bool = False
    agent_s: float = 0.0


class SleepingSite(OrdersSite):
    """A site whose plans decide which nodes sleep."""

    def __init__(
        self, logs: Path, *, sets_calendars: bool = True, seed: int = 0, more: str = ""
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="wf-switch-"))
        super().__init__(logs, sets_calendars=sets_calendars, own=self._planned(more))
        self.switched = [Switched() for _ in self.machines]
        self._chance = random.Random(seed)
        self.boots = 0
        for node in self.plan.nodes:
            self._tell(node.node_id, "on")

    def _planned(self, more: str) -> SitePlan:
        before = plan(more)
        program = self._folder / "switch"
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        power = _POWER.format(
            program=f"{program} {self._folder}",
            account=pwd.getpwuid(os.geteuid()).pw_name,
            asleep=ASLEEP_W,
            boot=BOOT_W,
            limit=BOOT_LIMIT_S,
        )
        return replace(before, coordinator_settings=before.coordinator_settings + power)

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _tell(self, node: str, word: str) -> None:
        (self._folder / f"{node}.part").write_text(word + "\n", encoding="utf-8")
        (self._folder / f"{node}.part").rename(self._folder / f"{node}.power")

    def look(self) -> list[pb.Node]:
        """Carry out what the programs were told, and what machines do by themselves."""
        for index, machine in enumerate(self.switched):
            order = self._folder / f"n{index}.order"
            if order.exists():
                word = order.read_text(encoding="utf-8").strip()
                order.unlink()
                (self._switch_on if word == "on" else self._switch_off)(index)
            if machine.boots and machine.agent_s and time.monotonic() >= machine.agent_s:
                self._come_up(index)
        return super().look()

    def _switch_off(self, index: int) -> None:
        machine, node = self.switched[index], f"n{index}"
        if machine.off:
            return
        if self.served(index):
            self.kill_both(index)
        machine.off, machine.boots = True, False
        now_ns = time.monotonic_ns()
        self.facts.note(now_ns, f"{node} is off")
        self.facts.draws(node, now_ns, uw(ASLEEP_W))
        self._tell(node, "off")

    def _switch_on(self, index: int) -> None:
        machine, node = self.switched[index], f"n{index}"
        if not machine.off:
            return
        takes_s = self._chance.choice(_BOOTS_S)
        now_ns = time.monotonic_ns()
        self.facts.note(now_ns, f"{node} boots, for {takes_s:g} s")
        self.facts.draws(node, now_ns, self.machines[index].most_uw)
        machine.off, machine.boots = False, True
        machine.agent_s = time.monotonic() + takes_s if takes_s else 0.0
        self.boots += 1
        self._tell(node, "on")

    def _come_up(self, index: int) -> None:
        self.switched[index].boots = False
        if self.disk_is_full(index):
            self.free_disk(index)
        now_ns = time.monotonic_ns()
        self.facts.note(now_ns, f"the agent of n{index} starts after its boot")
        self.facts.draws(f"n{index}", now_ns, None)
        self.start_agent(index)

    def dark(self, index: int) -> bool:
        """Whether a machine is off or boots, so that nobody starts its agent."""
        return self.switched[index].off or self.switched[index].boots

    def of_operator(self, index: int) -> list[Choice]:
        """Orders of operators about the power of a node."""
        client, node = self.client, f"n{index}"
        return [
            (3, f"sleep {node}", partial(client.sleep_node, node)),
            (4, f"wake {node}", partial(client.wake_node, node)),
            (4, f"auto {node}", partial(client.decide_node_sleep, node)),
        ]

    @property
    def booting(self) -> bool:
        """Whether a machine boots."""
        return any(machine.boots for machine in self.switched)
