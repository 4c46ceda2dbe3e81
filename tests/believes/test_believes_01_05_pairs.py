"""Two accidents at once: the limits stay within the budget at every write, and no job ends.

Accidents: 1 a copied state folder, 2 a boot of the head node with a wrong calendar, 3 a step of the
calendars, 4 a reset of energy counters, 5 an event that cannot be handled.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from contract.agent.behaving_trees import why_no_fuse
from system.orders.judge import Sample, judge
from system.orders.nodes_site import OrdersSite
from system.orders.trial import told
from system.site.calendars import WHY_NOT
from system.site.live_site import CPUS, wait_until

from wattfold.v1 import coordinator_pb2 as pb

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
S = 10**9
COPY, BOOT, STEP, RESET, POISON = range(1, 6)
PAIRS = list(itertools.combinations((COPY, BOOT, STEP, RESET, POISON), 2))
AHEAD_S = 36_000


class Site(OrdersSite):
    """Each of three nodes runs a job with a time limit of an hour, and a budget is announced."""

    def begin(self) -> None:
        """Submit the jobs, and wait until all run."""
        argv, limit_ns = ["sleep", "100000"], 3600 * S
        self.jobs = [self.submit(argv, limit_ns=limit_ns, size_min=2) for _ in self.machines]
        self.pids = {job: self.pid(job) for job in self.jobs}
        self.node_of_first = self.job(self.jobs[0]).shares[0].node_id
        self.budgets.announce(85.0, 7 * 86_400)

    def step(self) -> None:
        """Set all calendars."""
        ahead_s = AHEAD_S - self.head_calendar.ahead_s
        for calendar in self.calendars:
            calendar.set_ahead(ahead_s)
        self.step_head(ahead_s)

    def reset(self) -> None:
        """Set the counters of all nodes back."""
        for index in range(len(self.machines)):
            self.set_counters(index, "back")

    def meet(self, pair: tuple[int, int]) -> None:
        """Both accidents: before kill -9 of the coordinator, while it is away, and after."""
        self._while_it_runs(pair)
        if pair == (STEP, RESET):
            return
        self.kill_coordinator()
        if POISON in pair:
            self.states.poison(self.node_of_first, self.jobs[0])
        if BOOT in pair:
            self.states.reboot()
            self.step_head(AHEAD_S - self.head_calendar.ahead_s)
        if COPY in pair:
            self.states.make_copy()
        self.restart_coordinator()
        if COPY in pair:
            # The one before is stopped until the copy commands, then both run on.
            self.states.take_over(stopped=True)
            self.states.await_fenced()
        self._while_it_runs(pair)

    def _while_it_runs(self, pair: tuple[int, int]) -> None:
        if STEP in pair:
            self.step()
        if RESET in pair:
            self.reset()

    def await_raised(self) -> None:
        """Wait until the coordinator reaches all nodes and has given the budget out."""
        wait_until("contact", lambda: all(n.state == pb.NODE_STATE_UP for n in self.look()))
        wait_until("raised caps", lambda: self.sum_w() > 0.9 * self.plan.budget_w)

    def sum_w(self) -> float:
        """The sum of limits and base power now."""
        limits = [sum(self.limits_uw(index).values()) for index in range(len(self.machines))]
        return (sum(limits) + sum(machine.base_uw for machine in self.machines)) / 1e6

    def noticed(self) -> Counter[int]:
        """How often the logs tell of each accident."""
        head, node = self.log(), (self.logs / "n0.log").read_text()
        return Counter(
            {
                COPY: head.count("event=took_over"),
                BOOT: head.count("event=gap_by_calendar"),
                STEP: head.count("event=calendar_stepped"),
                RESET: node.count("event=energy_counter_reset"),
                POISON: head.count("event=event_set_aside"),
            }
        )

    def samples_from(self, from_ns: int) -> list[Sample]:
        """What held since then."""
        return [sample for sample in self.samples() if sample.at_ns >= from_ns]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if why := why_no_fuse():
        pytest.skip(why)
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    with Site(tmp_path_factory.mktemp("pairs") / "logs") as made:
        made.begin()
        yield made


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-and-{pair[1]}")
def test_two_accidents_at_once(site: Site, pair: tuple[int, int]) -> None:
    site.await_raised()
    from_ns, before = time.monotonic_ns(), site.noticed()
    site.meet(pair)
    site.await_raised()
    # A node tells of resets once a minute.
    assert set(pair) <= set(site.noticed() - before) | {RESET}
    assert site.noticed()[RESET] or RESET not in pair
    verdict = judge(site.machines, site.samples_from(from_ns), site.facts)
    assert not verdict.violations, "\n".join(told(site.facts))
    assert verdict.samples
    assert site.states.problems == []
    for job in site.jobs:
        assert site.job(job).state == pb.JOB_STATE_RUNNING
        assert site.pid(job) == site.pids[job]
    power = site.client.power()
    assert power.measured_uw_peak < 2 * sum(machine.most_uw for machine in site.machines)
    assert power.budget_uw == site.facts.budgets[0].budget_uw
    (announced,) = power.announced
    assert announced.at_s == pytest.approx(site.budgets.ahead()[0].at_s, abs=0.01)
