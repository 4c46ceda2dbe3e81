"""Progress and profiles learned from telemetry, through the real service."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from unit.core.stage import job_spec, node_spec, on, package, planning_round, reading

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.learning.observations import (
    JobSample,
    NodeSample,
    Observations,
    ZoneSample,
)
from wattfold.coordinator.adapters.learning.profiles import Lesson, ProgressLearner, fit_lesson
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.speeds import SeenSpeed, measured_serial_ppm
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import ZoneKind
from wattfold.coordinator.core.model.plan import Plan
from wattfold.coordinator.models.fitting import FitResult
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit

S = 1_000_000_000
N0, A = NodeId("n0"), JobId("a")


async def fit_here(lesson: Lesson) -> FitResult | str:
    """Fit as in the worker, but in this process."""
    try:
        return fit_lesson(lesson)
    except ValueError as error:
        return str(error)


class Nobody:
    def perform(self, action: act.Action) -> None:
        """Do nothing: the test posts the answers itself."""


def sample(at_s: float, *, regions: int = 0, done: float = 0.0, total: float = 0.0) -> NodeSample:
    job = JobSample(
        cpu_ns=0,
        energy_uj=0,
        residual_cpu_ns=0,
        threads=1,
        team_size=1,
        regions=regions,
        done=done,
        total=total,
        confined=False,
    )
    return NodeSample(
        node_id=N0,
        taken_ns=round(at_s * S),
        base_power_uw=5,
        zones={},
        jobs={A: job},
        drift_count=0,
    )


class Site:
    """One node and one running job. `feed` passes samples and events immediately."""

    def __init__(self, path: Path, spec: JobSpec | None = None) -> None:
        self.spec = spec or job_spec()
        self.core = CoordinatorCore(1000 * 10**6)
        self.service = Service(self.core, Journal(path / "j"), Clock())
        kinds = (
            act.SetCaps,
            act.SetMask,
            act.Launch,
            act.ForgetProcess,
            act.RenewLease,
            act.Solve,
            act.Suspend,
        )
        self.service.performers = dict.fromkeys(kinds, Nobody())
        self.learner = ProgressLearner(self.service, fit_here)
        self.service.start_epoch(S, S)

    async def start(self) -> None:
        post = self.service.post
        post(ev.NodeRegistered(node_id=N0, address="x"))
        post(reports.NodeConnected(spec=node_spec(), caps=(reading(10),), processes=()))
        post(ev.JobSubmitted(job_id=A, spec=self.spec))
        await self.settle()
        await self.plan(on("a", "n0:0-3", cap_w=40))
        post(reports.JobLaunched(node_id=N0, job_id=A, pid=1))
        await self.settle()

    async def plan(self, assignment: Assignment) -> None:
        if not self.core.state.solving:
            self.service.post(ev.BudgetChanged(budget_uw=1000 * 10**6))
            await self.settle()
        number = self.core.state.solving
        plan = Plan(assignments=(assignment,))
        self.service.post(ev.PlanProposed(plan=plan, round=planning_round(number)))
        await self.settle()

    async def end(self) -> None:
        reading = reports.ProcessReading(job_id=A, running=False, pid=1, cpus=node_spec().cpus)
        self.service.post(reports.ProcessEnded(node_id=N0, process=reading))
        await self.settle()
        await self.learner.idle()
        await self.settle()

    async def settle(self) -> None:
        done = asyncio.Event()
        self.service.listeners.append(done.set)
        self.service.post(ev.TimePassed())
        await done.wait()
        self.service.listeners.remove(done.set)


def run(path: Path, scenario: str, spec: JobSpec | None = None) -> Site:
    async def go() -> Site:
        site = Site(path, spec)
        task = asyncio.create_task(site.service.run())
        try:
            async with asyncio.timeout(240):
                await SCENARIOS[scenario](site)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return site

    return asyncio.run(go())


async def regions(site: Site) -> None:
    await site.start()
    for second in range(6):
        site.learner.take(sample(second, regions=100 * second))
    await site.end()


async def stood_still(site: Site) -> None:
    await site.start()
    for second in range(4):
        site.learner.take(sample(second, regions=100 * second))
    site.service.post(ev.JobSuspendRequested(job_id=A))
    await site.settle()
    site.learner.take(sample(50, regions=300))
    site.service.post(ev.JobResumeRequested(job_id=A))
    await site.settle()
    for second in range(4):
        site.learner.take(sample(60 + second, regions=300 + 100 * second))
    await site.end()


async def short(site: Site) -> None:
    await site.start()
    for second in (0.0, 0.9, 1.8):
        site.learner.take(sample(second, regions=round(100 * second)))
    await site.end()


async def measured(site: Site) -> None:
    known = replace(APPLICATIONS["AMR"], app="app", unit=SizeUnit.CORES)
    site.service.post(ev.ProfileStored(profile=known, source="measured"))
    await regions(site)


async def levelled(site: Site, dram_w: int) -> None:
    """Run `regions` under a DRAM level, on a node whose DRAM cap is its maximum of 20 W."""
    drams = replace(package("dram-0", floor_w=5, max_w=20), kind=ZoneKind.DRAM)
    spec = node_spec(zones=(package(), drams))
    post = site.service.post
    post(ev.NodeRegistered(node_id=N0, address="x"))
    post(reports.NodeConnected(spec=spec, caps=(reading(10), reading(5, "dram-0")), processes=()))
    post(ev.JobSubmitted(job_id=A, spec=site.spec))
    await site.settle()
    levels = Levels(dram_uw=dram_w * 10**6)
    await site.plan(replace(on("a", "n0:0-3", cap_w=40), levels=levels))
    post(reports.JobLaunched(node_id=N0, job_id=A, pid=1))
    await site.settle()
    for second in range(6):
        site.learner.take(sample(second, regions=100 * second))
    await site.end()


async def low_level(site: Site) -> None:
    await levelled(site, 12)


async def full_level(site: Site) -> None:
    await levelled(site, 20)


async def change_of_measure(site: Site) -> None:
    await site.start()
    for second in range(3):
        site.learner.take(sample(second, regions=10 * second))
    # The program starts its own count: 5000 done is no speed-up from 20 regions.
    for second in range(3, 8):
        site.learner.take(sample(second, done=5000 + second, total=6000))
    await site.end()


async def count_without_total(site: Site) -> None:
    await site.start()
    for second in range(13):
        site.learner.take(sample(second, regions=1000 * second, done=7.0 * second))
    await site.settle()


async def progress(site: Site) -> None:
    await site.start()
    site.learner.take(sample(0, done=0.0, total=100))
    site.learner.take(sample(1, done=1.0, total=100))
    await site.settle()
    first = site.core.state.jobs[A].done
    site.learner.take(sample(2, done=50.0, total=100))
    await site.settle()
    assert (first, site.core.state.jobs[A].done) == (0.0, 0.5)


async def two_sizes(site: Site) -> None:
    """100 regions per second on four cores, 80 on two of them."""
    await site.start()
    for second in range(13):
        site.learner.take(sample(second, regions=100 * second))
    await site.plan(on("a", "n0:0-1", cap_w=40))
    site.service.post(
        reports.MaskConfirmed(node_id=N0, job_id=A, cpus=CpuSet.parse("0-1"), confined=False)
    )
    await site.settle()
    for second in range(6):
        site.learner.take(sample(20 + second, regions=2000 + 80 * second))
    await site.settle()


SCENARIOS = {
    f.__name__: f
    for f in (
        *(regions, stood_still, short, measured, change_of_measure, progress),
        *(low_level, full_level, two_sizes, count_without_total),
    )
}


def test_a_finished_job_teaches_its_speed(tmp_path: Path) -> None:
    stored = run(tmp_path, "regions").core.state.profiles["app/cores"]
    assert stored.source == "progress"
    # 500 regions at 100 per second on 4 cores at 40 W.
    assert stored.profile.time_s(4, 40) == pytest.approx(5.0, rel=0.05)


def test_time_in_which_a_job_stood_still_is_no_time_of_its_work(tmp_path: Path) -> None:
    (stored,) = run(tmp_path, "stood_still").core.state.profiles.values()
    assert [point.rate for point in stored.stored.points] == [100.0]


def lender(path: Path, **fields: object) -> tuple[SeenSpeed, ...]:
    spec = job_spec(kind=JobKind.MALLEABLE, **fields)
    return run(path, "two_sizes", spec).core.state.jobs[A].speeds


def test_the_speeds_of_a_job_that_may_lend_are_told(tmp_path: Path) -> None:
    """Speeds are reported after 4 s and then at doubling intervals; the newest value of a size
    counts.
    """
    speeds = lender(tmp_path)
    told = [(one.cores, one.rate, one.seen_ns // S) for one in speeds]
    assert told == [(4, pytest.approx(100), 8), (2, pytest.approx(80), 4)]
    # 1 / 0.8 on half of its cores.
    assert measured_serial_ppm(speeds, 1, 4) == pytest.approx(750_000, abs=2)


def test_a_program_counts_its_own_work_without_knowing_the_total(tmp_path: Path) -> None:
    spec = job_spec(kind=JobKind.MALLEABLE)
    (speed,) = run(tmp_path, "count_without_total", spec).core.state.jobs[A].speeds
    assert (speed.rate, speed.counted) == (pytest.approx(7), True)


def test_of_a_job_that_lends_nothing_they_are_not(tmp_path: Path) -> None:
    assert lender(tmp_path, sharing=CoreSharing.NO) == ()


def test_a_glimpse_teaches_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "short").core.state.profiles == {}


def test_a_measured_profile_stays(tmp_path: Path) -> None:
    assert run(tmp_path, "measured").core.state.profiles["app/cores"].source == "measured"


@pytest.mark.parametrize(("scenario", "teaches"), [("low_level", False), ("full_level", True)])
def test_what_was_done_with_less_dram_teaches_nothing(
    tmp_path: Path, scenario: str, teaches: bool
) -> None:
    assert ("app/cores" in run(tmp_path, scenario).core.state.profiles) is teaches


def test_two_measures_are_not_mixed(tmp_path: Path) -> None:
    stored = run(tmp_path, "change_of_measure").core.state.profiles["app/cores"]
    # One unit per second, of 6000. Neither the earlier regions nor the jump of 5000 count.
    assert stored.profile.time_s(4, 40) == pytest.approx(6000, rel=0.05)


def test_the_programs_word_is_passed_on_in_steps(tmp_path: Path) -> None:
    run(tmp_path, "progress")


def test_observations_sum_the_newest_samples() -> None:
    seen = Observations()
    seen.take(sample(0, regions=1))
    seen.take(sample(1, regions=2))
    assert [s.regions for s in seen.of_job(A)] == [2]
    assert (seen.power_uw, seen.peak_uw) == (5, 5)
    seen.drop(N0)
    assert (seen.power_uw, seen.peak_uw, seen.energy_uj) == (0, 5, 0)


def test_the_mean_power_of_a_meter_needs_readings_of_half_a_second() -> None:
    """Over a shorter time, the mean of the agent counts."""

    def seen_w(last_s: float) -> int:
        seen = Observations()
        for at_s, energy_uj in ((1.0, 0), (last_s, round((last_s - 1.0) * 40e6))):
            zone = ZoneSample(
                power_uw=7_000_000,
                energy_uj=energy_uj,
                energy_at_ns=round(at_s * S),
                cap_uw=0,
                valid=True,
            )
            meters = {ZoneName("package-0"): zone}
            seen.take(replace(sample(at_s), base_power_uw=0, zones=meters))
        return seen.power_uw // 1_000_000

    assert [seen_w(last_s) for last_s in (1.4, 1.45, 1.55, 2.0)] == [7, 7, 40, 40]
