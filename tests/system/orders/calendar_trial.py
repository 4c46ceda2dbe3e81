"""Do announced budgets, reservations, due dates and time limits keep their times when calendars
are set? A real site, the calendars of all of whose nodes are set by libfaketime.

No step, for comparison, then steps of -10 h, -1 s, +1 s, +1 h and +10 h, and a leap to 5 s before
the clocks change for or from summer time. Each while all runs, and while coordinator and an agent
are killed and started again.
Each time is compared with the true (monotonic) clock. A row shows seconds after the due time:
budget (it is shown as in force), reservation (it has begun), limit (the process of a job with a
time limit has ended), power (the last limits above the budget), due (how far a due date has moved).
A deviation of more than 2 s fails, and so does a time limit or a budget that takes effect early, or
power above an announced budget. Delays of the coordinator itself (column lag) are allowed for.
Exit status 1 if something deviates, 2 if the trial could not be made.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil
from system.orders.judge import NS_PER_S, sums_uw
from system.orders.nodes_site import BUDGETS_W, OrdersSite
from system.site.calendars import WHY_NOT
from system.site.live_site import uw, wait_until

from wattfold.coordinator.demo.site import SiteError
from wattfold.v1 import coordinator_pb2 as pb

ZONE = "Europe/Berlin"
TOLERANCE_S = 2.0
LOW_W, HIGH_W = BUDGETS_W[:2]
STEPS_S = (0, -36_000, -1, 1, 3600, 36_000)
_RESERVED_S = 3600
_DUE_S = 86_400
_LEAP_S = 5
"""After the step."""
_PACE_S = 0.05
_LAG = re.compile(r"own_lag late_ms=(\d+)")
_FAR_S = 60
"""A step back by more takes a time of before it out of the way."""


@dataclass(slots=True)
class Times:
    """When something was due, and seen to have happened, by the monotonic clock (s)."""

    due_s: float
    seen_s: float = 0.0
    not_yet_s: float = 0.0
    """When it had not happened yet."""

    @property
    def late_s(self) -> float:
        """Early: below 0. At most so much: it may have happened since the look before."""
        return self.seen_s - self.due_s

    @property
    def surely_late_s(self) -> float:
        """At least so much."""
        return self.not_yet_s - self.due_s


@dataclass(slots=True)
class Case:
    """One step of the calendars, and what became of the times."""

    name: str
    restarted: bool
    times: dict[str, Times] = field(default_factory=dict)
    power_s: float = 0.0
    due_moved_s: float = 0.0
    lag_s: float = 0.0

    def wrong(self) -> list[str]:
        """What deviates."""
        allowed_s = TOLERANCE_S + self.lag_s
        found = [name for name, one in self.times.items() if one.surely_late_s > allowed_s]
        found += [f"{name}, early" for name, one in self.times.items() if one.late_s < -TOLERANCE_S]
        if self.times["limit"].late_s < 0:
            found.append("limit, early")
        if self.power_s > 0:
            found.append("power")
        if abs(self.due_moved_s) > TOLERANCE_S:
            found.append("due")
        return found

    def row(self) -> str:
        """For people."""
        times = " ".join(f"{one.late_s:>11.2f}" for one in self.times.values())
        way = "restarted" if self.restarted else "running"
        return (
            f"{self.name:>9} {way:>9} {times} {self.power_s:>7.2f} {self.due_moved_s:>7.2f} "
            f"{self.lag_s:>5.2f}  {', '.join(self.wrong()) or 'kept'}"
        )


HEADER = (
    f"{'step':>9} {'while':>9} {'budget':>11} {'reservation':>11} {'limit':>11} "
    f"{'power':>7} {'due':>7} {'lag':>5}"
)


class CalendarTrial:
    """The cases on one site."""

    def __init__(self, site: OrdersSite) -> None:
        self._site = site
        self._log = site.logs / "coordinator.log"

    def begin(self) -> None:
        """Let the nodes have jobs for which limits are raised."""
        for _ in self._site.machines:
            self._site.running(self._site.submit(["sleep", "1000000"]))

    def tried(self, name: str, ahead_s: int, *, restarted: bool) -> Case:
        """Set the calendars, and look at what comes when."""
        site, case = self._site, Case(name, restarted)
        lead_s, logged = (60.0 if restarted else 14.0), len(self._log.read_text())
        wait_until("raised limits", lambda: self._sum_uw() > uw(LOW_W))
        begin_ns, at_s = time.monotonic_ns(), time.time() + ahead_s + lead_s
        back_s = site.head_calendar.ahead_s - ahead_s
        due_at_s = at_s + _DUE_S
        early = (site.client.announce_budget(uw(LOW_W), at_s + back_s),) if back_s > _FAR_S else ()
        job = site.submit(["sleep", "1000000"], limit_ns=int(lead_s) * NS_PER_S, due_at_s=due_at_s)
        process = psutil.Process(site.pid(job))
        if back_s <= _FAR_S:
            due_s = self._order(at_s, ahead_s)
        self._step(ahead_s, restarted=restarted)
        if back_s > _FAR_S:
            # Before the step, its time had passed.
            due_s = self._order(time.time() + ahead_s + lead_s, ahead_s)
        case.times = {"budget": Times(due_s), "reservation": Times(due_s)}
        case.times["limit"] = Times(_started_s(process) + int(lead_s))
        self._follow(case, process)
        case.due_moved_s = site.job(job).spec.due_at_s - due_at_s
        case.power_s = self._above_s(begin_ns, case.times["budget"])
        lags = _LAG.findall(self._log.read_text()[logged:])
        case.lag_s = max(map(int, lags), default=0) / 1000
        left = [one.number for one in site.client.power().announced]
        if left != [one.number for one in early]:
            raise SiteError(f"announced budgets {left} are left, not those of before the step")
        self._tidy(left)
        return case

    def _order(self, at_s: float, ahead_s: int) -> float:
        """Announce a budget and reserve a node. When that is by the true clock."""
        due_s = time.monotonic() + at_s - ahead_s - time.time()
        self._site.client.announce_budget(uw(LOW_W), at_s)
        request = pb.ReserveRequest(
            name="r",
            node_ids=["n0"],
            start_at_s=at_s,
            end_at_s=at_s + _RESERVED_S,
            maintenance=True,
        )
        self._site.client.reserve(request)
        return due_s

    def _step(self, ahead_s: int, *, restarted: bool) -> None:
        site = self._site
        if restarted:
            site.kill_coordinator()
            site.kill_agent(1)
        for calendar in site.calendars:
            calendar.set_ahead(ahead_s)
        site.step_head(ahead_s)
        if restarted:
            site.start_agent(1)
            site.restart_coordinator()

    def _follow(self, case: Case, process: psutil.Process) -> None:
        client, pace = self._site.client, threading.Event()
        looks: dict[str, Callable[[], bool]] = {
            "budget": lambda: client.power().budget_uw == uw(LOW_W),
            "reservation": lambda: client.list_reservations().reservations[0].begun,
            "limit": lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE,
        }
        until_s = max(one.due_s for one in case.times.values()) + 60
        while looks and time.monotonic() < until_s:
            for name, look in list(looks.items()):
                asked_s = time.monotonic()
                if look():
                    case.times[name].seen_s = time.monotonic()
                    del looks[name]
                else:
                    case.times[name].not_yet_s = asked_s
            pace.wait(_PACE_S)
        for name in looks:
            case.times[name].seen_s = until_s

    def _above_s(self, begin_ns: int, budget: Times) -> float:
        """How long after its time limits were last above the budget; below 0: before."""
        site = self._site
        above = [
            sample.at_ns
            for sample in site.samples()
            if sample.at_ns > begin_ns and sum(sums_uw(site.machines, sample)) > uw(LOW_W)
        ]
        return max(above, default=begin_ns) / NS_PER_S - budget.due_s

    def _tidy(self, announced: list[int]) -> None:
        for number in announced:
            self._site.client.cancel_budget(number)
        self._site.client.cancel_reservation("r")
        self._site.client.set_budget(uw(HIGH_W), NS_PER_S * 10)

    def _sum_uw(self) -> int:
        site = self._site
        limits = [sum(site.limits_uw(index).values()) for index in range(len(site.machines))]
        return sum(limits) + sum(machine.base_uw for machine in site.machines)


def _started_s(process: psutil.Process) -> float:
    """When a process started, by the monotonic clock, rounded down to 0.01 s."""
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def next_leap_s() -> int:
    """The Unix time at which the clocks change next in `ZONE`."""
    zone = ZoneInfo(ZONE)
    at = datetime.now(zone).replace(minute=0, second=0, microsecond=0).astimezone(ZoneInfo("UTC"))
    before = at.astimezone(zone).utcoffset()
    while at.astimezone(zone).utcoffset() == before:
        at += timedelta(hours=1)
    return int(at.timestamp())


def steps(trial: CalendarTrial) -> list[Case]:
    """All cases, printed as they come."""
    cases: list[Case] = []
    ahead_s = 0
    for restarted in (False, True):
        for step_s in (*STEPS_S, None):
            if step_s is None:
                ahead_s, name = next_leap_s() - _LEAP_S - int(time.time()), "leap"
            else:
                ahead_s, name = ahead_s + step_s, f"{step_s:+d} s"
            cases.append(trial.tried(name, ahead_s, restarted=restarted))
            print(cases[-1].row(), flush=True)
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="trial_calendar",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep logs and samples there")
    logs = parser.parse_args().logs
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ["TZ"] = ZONE
    print(HEADER)
    try:
        if WHY_NOT:
            raise SiteError(WHY_NOT)
        with (
            tempfile.TemporaryDirectory(prefix="wf-calendar-") as place,
            OrdersSite((logs or Path(place)) / "site") as site,
        ):
            trial = CalendarTrial(site)
            trial.begin()
            cases = steps(trial)
    except SiteError as error:
        print(f"trial_calendar: {error}", file=sys.stderr)
        return 2
    kept = sum(not case.wrong() for case in cases)
    print(f"trial_calendar: {kept} of {len(cases)} steps kept all times within {TOLERANCE_S:g} s")
    return 0 if kept == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
