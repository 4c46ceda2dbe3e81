"""A random order of what may befall a site: ends and starts, words of operators, accidents.

One thing is not done, as no software could make up for it: a node that was forgotten as without
power is switched on only where its floors have room.

The same seed gives the same choices; as some depend on what the coordinator shows (only what has
left can be forgotten as outside), two runs may differ in what becomes of them.
"""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate

from system.orders import accidents, sleeping
from system.orders.accidents import Choice, Deed
from system.orders.nodes_site import BUDGETS_W, LEASE_S, OrdersSite
from system.orders.sleeping import SleepingSite
from system.site.live_site import wait_until

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import coordinator_pb2 as pb

SETTLE_S = 3.0
"""From the moment a coordinator shows a node that came back unannounced: it counts again then."""
_LOOK_S = 0.2
_PAUSE_S = 1.0
_REPEAT_S = 0.1
_JOBS = 5
_PROGRAMS = (["sleep", "6"], ["sleep", "20"], ["sleep", "1000"])
"""Zones draw as much as their limits let them, whatever runs."""
_ENDLESS = (["sleep", "100000"],)
_EMERGENCIES_W = (40.0, 70.0, 95.0)
"""Limits of emergencies: below the floors of three nodes, just above, and below most budgets."""
_AHEAD_S = (3.0, 12.0, 25.0)
"""When announced budgets come: caps fall for them at once, or later."""
_CANCEL_S = 3.0
"""A budget that comes sooner is not cancelled: it may be in force before."""
_GOING = (pb.NODE_DUTY_LEAVING, pb.NODE_DUTY_RESTORING)


class Order:
    """One order of events on one site."""

    def __init__(self, site: OrdersSite, seed: int) -> None:
        self.site = site
        self.problems: list[str] = []
        self._chance = random.Random(seed)
        # Of its own, as it is asked at every look: jobs and pauses are those of the seed.
        self._mishap = random.Random(seed)
        self._done: Counter[str] = Counter()
        self._jobs: list[str] = []
        self._programs: Sequence[list[str]] = _PROGRAMS
        self._words: dict[str, float] = {}
        """Nodes out of the sum, with when they count again (monotonic s; 0 = not heard of)."""
        self._shown: dict[str, pb.Node] = {}
        self._sleeping = site if isinstance(site, SleepingSite) else None
        self._budgets_w = BUDGETS_W if self._sleeping is None else sleeping.BUDGETS_W

    def run(self, events: int) -> None:
        """So many events, then everything is started again."""
        for _ in range(_JOBS):
            self._submit()
        for _ in range(events):
            self._do(*self._chosen())
            self._wait(self._chance.choice((0.0, 0.1, 0.5, _PAUSE_S, _PAUSE_S, LEASE_S)))
        self._start_all()
        self._wait(SETTLE_S + _PAUSE_S)
        self.site.states.await_fenced()
        self.problems += self.site.states.problems

    def follow(self, events: Sequence[tuple[str, float]]) -> None:
        """These events, each as soon as it is possible, and so many seconds after each.

        Jobs do not end by themselves, so that on a busy machine the same events are possible.
        """
        self._programs = _ENDLESS
        for _ in range(_JOBS):
            self._submit()
        for name, pause_s in events:
            deed = wait_until(name, partial(self._named, name))
            assert deed is not None
            self._do(name, deed)
            self._wait(pause_s)
        self._start_all()
        self._wait(SETTLE_S)
        self.site.states.await_fenced()
        self.problems += self.site.states.problems

    def _named(self, wanted: str) -> Deed | None:
        self._look()
        return next((deed for _, name, deed in self._possible() if name == wanted), None)

    def _chosen(self) -> tuple[str, Deed]:
        """What was seldom done is chosen more often."""
        choices = self._possible()
        weights = [weight / (1 + self._done[_kind(name)]) for weight, name, _ in choices]
        _, name, deed = self._chance.choices(choices, weights)[0]
        self._done[_kind(name)] += 1
        return name, deed

    def _possible(self) -> list[Choice]:
        """What can be done now, how often, its name."""
        found = [*self._of_coordinator(), *self._accidents()]
        for index in range(len(self.site.machines)):
            found += self._of_agent(index)
            if self.site.coordinated:
                found += self._of_operator(index)
        return found

    def _accidents(self) -> list[Choice]:
        site, shown = self.site, self._shown.values()
        # A copy takes a node for asleep that was woken since: no word of an operator tells it.
        copies = accidents.of_copies(
            site,
            words=bool(self._words) or self._sleeping is not None,
            serving=all(node.duty == pb.NODE_DUTY_SERVING for node in shown),
            reached=any(node.state == pb.NODE_STATE_UP for node in shown),
        )
        return [
            *copies,
            *accidents.of_journal(site, self._mishap, self._jobs),
            *accidents.of_calendars(site, self._mishap),
            *accidents.of_counters(site, self._mishap),
        ]

    def _of_coordinator(self) -> list[Choice]:
        site = self.site
        if not site.coordinated:
            return [(30, "restart coordinator", site.restart_coordinator)]
        found: list[Choice] = [
            (2, "stop coordinator", lambda: site.end_coordinator(signal.SIGTERM)),
            (3, "kill -9 coordinator", lambda: site.end_coordinator(signal.SIGKILL)),
            (5, "submit", self._submit),
        ]
        if self._sleeping is not None and self._sleeping.booting:
            deed = partial(site.end_coordinator, signal.SIGKILL)
            found.append((30, "kill -9 coordinator during a boot", deed))
        for budget_w in self._budgets_w:
            deed = partial(site.budgets.set, budget_w)
            found.append((2, f"budget {budget_w:g} W", deed))
            deed = partial(self._announce, budget_w)
            found.append((3, f"announce {budget_w:g} W", deed))
        found.append((9, "schedule budgets", self._schedule))
        for limit_w in _EMERGENCIES_W:
            deed = partial(site.budgets.begin_emergency, limit_w)
            found.append((2, f"emergency {limit_w:g} W", deed))
        found.append((8, "end the emergency", site.budgets.end_emergency))
        if ahead := site.budgets.ahead(_CANCEL_S):
            deed = partial(site.budgets.cancel, self._chance.choice(ahead))
            found.append((2, "cancel an announced budget", deed))
        if self._jobs:
            found.append((2, "cancel", self._cancel))
        return found

    def _of_agent(self, index: int) -> list[Choice]:
        site, node = self.site, f"n{index}"
        if self._sleeping is not None and self._sleeping.dark(index):
            return []
        if not site.served(index):
            if node in self._words and not self._fits(index):
                return []
            return [(8, f"start agent {node}", partial(self._start_agent, index))]
        found: list[Choice] = [
            (1, f"stop agent {node}", partial(site.stop_agent, index)),
            (1, f"kill -9 guard {node}", partial(site.kill_guard, index)),
            (2, f"kill -9 both of {node}", partial(site.kill_both, index)),
            (2, f"kill -9 agent {node}", partial(site.kill_agent, index)),
            (1, f"hang agent {node}, kill -9 its guard", partial(self._hang, index)),
        ]
        if site.disk_is_full(index):
            found.append((4, f"room on the disk of {node}", partial(site.free_disk, index)))
        elif site.disks_fill:
            found.append((2, f"fill the disk of {node}", partial(site.fill_disk, index)))
        if site.coordinated and node not in self._words:
            found.append((1, f"power of {node} off, forget", partial(self._lose_power, index)))
        return found

    def _of_operator(self, index: int) -> list[Choice]:
        client, node = self.site.client, f"n{index}"
        shown = self._shown.get(node)
        duty = shown.duty if shown else pb.NODE_DUTY_SERVING
        if duty == pb.NODE_DUTY_SERVING:
            power = self._sleeping.of_operator(index) if self._sleeping is not None else []
            return [
                (1, f"drain {node}", lambda: client.drain_node(node, "trial", cancel_jobs=False)),
                (3, f"leave {node}", lambda: client.leave_node(node, "trial", at_once=False)),
                *power,
            ]
        found: list[Choice] = [(2, f"resume {node}", lambda: client.resume_node(node, "trial"))]
        if duty == pb.NODE_DUTY_LEAVING and self._jobs:
            found.append((4, "cancel all", self._cancel_all))
        if duty == pb.NODE_DUTY_LEFT:
            found.append((4, f"forget {node} --outside-budget", partial(self._declare, node)))
        return found

    # Deeds.

    def _do(self, name: str, deed: Deed) -> None:
        """Notes it before it is done, and that it was refused."""
        facts = self.site.facts
        facts.note(time.monotonic_ns(), name)
        try:
            deed()
        except CliError as error:
            facts.note(time.monotonic_ns(), f"{name}: refused: {error}")
        self._look()

    def _announce(self, budget_w: float) -> None:
        self.site.budgets.announce(budget_w, self._chance.choice(_AHEAD_S))

    def _schedule(self) -> None:
        # A schedule without budgets is cancelled, if there is one.
        count = self._chance.choice((0, 1, 2, 4) if self.site.budgets.scheduled() else (1, 2, 4))
        times_s = accumulate(self._chance.choice(_AHEAD_S) for _ in range(count))
        steps = [(in_s, self._chance.choice(self._budgets_w)) for in_s in times_s]
        self.site.budgets.schedule(steps, _CANCEL_S)

    def _submit(self) -> None:
        size, argv = self._chance.choice((1, 2)), self._chance.choice(self._programs)
        if len(self._jobs) >= 2 * _JOBS:
            self._cancel()
        self._jobs.append(self.site.submit(argv, size_min=size))

    def _cancel(self) -> None:
        self.site.client.cancel(self._jobs.pop(self._chance.randrange(len(self._jobs))))

    def _cancel_all(self) -> None:
        while self._jobs:
            self._cancel()

    def _start_agent(self, index: int) -> None:
        alone = not self.site.coordinated or f"n{index}" in self._words
        if self.site.disk_is_full(index):
            # Without room for its state no agent starts.
            self.site.free_disk(index)
        self.site.start_agent(index)
        # Nobody raises it: what it holds is what it came up with.
        if alone and not self.site.left(index) and not self.site.at_floor(index):
            self.problems.append(f"n{index} came up with {self.site.limits_uw(index)} uW")

    def _hang(self, index: int) -> None:
        """Longer than a lease; then whoever watches over agents kills it."""
        self.site.hang_agent(index)
        self._wait(LEASE_S + SETTLE_S)
        self.site.kill_agent(index)

    def _lose_power(self, index: int) -> None:
        """The node is dead, and an operator says so as soon as the coordinator listens."""
        node = f"n{index}"
        self.site.kill_both(index)
        until_s = time.monotonic() + LEASE_S / 2
        while True:
            called_ns = time.monotonic_ns()
            try:
                self.site.client.forget_node(node, "trial", pb.FORGET_WORD_NO_POWER)
            except CliError:
                if time.monotonic() > until_s:
                    self._start_agent(index)
                    raise
                threading.Event().wait(_REPEAT_S)
                continue
            self._excuse(node, called_ns)
            return

    def _declare(self, node: str) -> None:
        called_ns = time.monotonic_ns()
        self.site.client.forget_node(node, "trial", pb.FORGET_WORD_OUTSIDE_BUDGET)
        self._excuse(node, called_ns)

    def _excuse(self, node: str, from_ns: int) -> None:
        if node not in self._words:
            self._words[node] = 0.0
            self.site.facts.excuse(node, from_ns)

    # Looking.

    def _wait(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        pace = threading.Event()
        while (left_s := until_s - time.monotonic()) > 0:
            self._look()
            pace.wait(min(left_s, _LOOK_S))
        self._look()

    def _look(self) -> None:
        """Takes in what is shown: nodes that are in the sum again count again."""
        now_s = time.monotonic()
        for shown in self.site.look():
            self._shown[shown.node_id] = shown
            if shown.node_id not in self._words:
                continue
            if shown.committed_uw:
                self._words[shown.node_id] = now_s
            elif shown.duty == pb.NODE_DUTY_RETURNED and not self._words[shown.node_id]:
                self._words[shown.node_id] = now_s + SETTLE_S
        for node, due_s in list(self._words.items()):
            if due_s and due_s <= now_s:
                del self._words[node]
                self.site.facts.count_again(node, time.monotonic_ns())

    def _fits(self, index: int) -> bool:
        """Whether a node that was forgotten may be switched on: whether its floors have room.

        Beside the floors of the others and limits that were given back there is nothing that a
        coordinator could lower for it.
        """
        if not self.site.coordinated or any(n.duty in _GOING for n in self._shown.values()):
            return False
        try:
            power = self.site.client.power()
        except CliError:
            return False
        budgets = [power.budget_uw, *(one.budget_uw for one in power.announced)]
        if power.HasField("emergency"):
            budgets.append(power.emergency.limit_uw)
        budget_uw = min(*budgets, power.pending_budget_uw or power.budget_uw)
        least_uw = self.site.machines[index].least_uw
        return power.floor_uw + power.outside_uw + least_uw <= budget_uw

    def _start_all(self) -> None:
        site = self.site
        if not site.coordinated:
            self._do("restart coordinator", site.restart_coordinator)
        wait_until("an answer", site.look)
        for index in range(len(site.machines)):
            if site.disk_is_full(index):
                self._do(f"room on the disk of n{index}", partial(site.free_disk, index))
            # None is started that was forgotten and has no room.
            for _, name, deed in [] if site.served(index) else self._of_agent(index):
                self._do(name, deed)


def _kind(name: str) -> str:
    """The name of an event without its node."""
    return re.sub(r"n\d", "", name)
