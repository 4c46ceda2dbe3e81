"""A real coordinator and a real agent whose calendars are set by libfaketime."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from system.site.calendars import WHY_NOT, Calendar
from system.site.live_site import LiveSite, site_plan, uw, wait_until

from wattfold.v1 import coordinator_pb2 as pb

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]
HIGH_W, RISE_W, LOW_W = 110.0, 115.0, 100.0
S = 10**9


class SteppedSite(LiveSite):
    """The calendars of node and head node are set while their processes run."""

    def __init__(self, logs: Path) -> None:
        self.of_node = Calendar(logs.parent / "node-calendar")
        self.of_head = Calendar(logs.parent / "head-calendar")
        plan = replace(site_plan(nodes=1, budget_w=HIGH_W, policy="easy"), omp_shim=None)
        super().__init__(plan, logs)

    def __enter__(self) -> SteppedSite:
        with self.of_node.faked():
            super().__enter__()
        return self

    def start_agent(self, index: int) -> None:
        with self.of_node.faked():
            super().start_agent(index)

    def start_coordinator(self, *more: str) -> None:
        with self.of_head.faked():
            super().start_coordinator(*more)

    def set_calendars(self, ahead_s: int) -> None:
        """Sets both calendars to so much ahead of the true one; of the node first."""
        for calendar in (self.of_node, self.of_head):
            calendar.set_ahead(ahead_s)

    def steps(self, ahead_s: int, number: int) -> None:
        """Sets them while all runs, and waits for the one line that tells of it."""
        self.set_calendars(ahead_s)
        wait_until("a log line", lambda: self.log().count("event=calendar_stepped") == number)

    def budgets(self) -> dict[int, float]:
        """The announced budgets: their times by the calendar."""
        return {one.number: one.at_s for one in self.client.power().announced}

    def log(self) -> str:
        return (self.logs / "coordinator.log").read_text()


def test_steps_of_real_calendars_move_no_budget_and_end_no_job(tmp_path: Path) -> None:
    with SteppedSite(tmp_path / "logs") as site:
        job = site.submit(["sleep", "1000"], limit_ns=3600 * S)
        site.running(job)
        fall = site.client.announce_budget(uw(LOW_W), time.time() + 7200)
        for number, ahead_s in enumerate((-36_000, -36_001, -32_400, 3600), 1):
            site.steps(ahead_s, number)
            assert site.budgets() == {fall.number: pytest.approx(fall.at_s, abs=0.01)}
        rise = site.client.announce_budget(uw(RISE_W), time.time() + 3600 + 3)
        wait_until("it is in force", lambda: site.client.power().budget_uw == uw(RISE_W))
        assert time.time() + 3600 >= rise.at_s, "not early"
        site.kill_coordinator()
        site.kill_agent(0)
        site.set_calendars(36_000)
        site.start_agent(0)
        site.restart_coordinator()
        wait_until("contact", lambda: site.node(0).state == pb.NODE_STATE_UP)
        assert site.job(job).state == pb.JOB_STATE_RUNNING
        wait_until("its time has passed", lambda: site.client.power().budget_uw == uw(LOW_W))
        assert site.budgets() == {}
        assert site.log().count("event=calendar_stepped") == 5
    site.check_record()
