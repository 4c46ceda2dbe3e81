"""Work is integrated over held cores and caps in force; power and bounds follow them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.simulation_cluster.small_site import CORES, S, Site, W

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.spec import JobSpec, ResizeMode
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile, SizeUnit
from wattfold.simulator.messages.work import CoresAtCap, SpeedModel, Work

LEANMD = replace(APPLICATIONS["LeanMD"], t1_s=400.0, average_parallelism=4.0, sigma=0.0)


def ideal(seconds: int, asked: int = CORES) -> Work:
    return Work(run_ns=seconds * S, asked_cores=asked)


def pass_work(profile: PassProfile = LEANMD) -> Work:
    return Work(run_ns=S, asked_cores=CORES, model=SpeedModel.PASS, profile=profile)


@pytest.mark.parametrize(
    ("model", "cores", "share"),
    [
        (SpeedModel.IDEAL, (4, 4), 1.0),
        (SpeedModel.WORST_CASE, (4, 4), 1.0),
        (SpeedModel.IDEAL, (4, 2), 0.75),
        (SpeedModel.WORST_CASE, (4, 2), 0.5),
        (SpeedModel.WORST_CASE, (1, 4), 0.25),
    ],
)
def test_speed_with_uneven_cores(model: SpeedModel, cores: tuple[int, ...], share: float) -> None:
    work = Work(run_ns=100, asked_cores=8, model=model)
    places = [CoresAtCap(cores=count, level_uw=0) for count in cores]
    assert work.rate(places) * 100 == pytest.approx(share)


def test_pass_takes_the_least_level_of_any_node() -> None:
    places = [CoresAtCap(cores=4, level_uw=60 * W), CoresAtCap(cores=4, level_uw=35 * W)]
    assert 1e-9 / pass_work().rate(places) == pytest.approx(LEANMD.time_s(2, 35.0))


def test_pass_counts_cores_where_its_profile_does() -> None:
    work = pass_work(replace(LEANMD, unit=SizeUnit.CORES))
    assert 1e-9 / work.rate([CoresAtCap(cores=3, level_uw=60 * W)]) == pytest.approx(
        LEANMD.time_s(3, 60.0)
    )


def test_a_shrunk_job_ends_later_and_a_grown_one_sooner() -> None:
    site = Site()
    site.launch("a", ideal(100), 0)
    site.until(40)
    site.mask(0, "a", "0-1")  # 60 s of work left at half the speed
    site.until(100)
    site.mask(0, "a", "0-3")  # 30 s remain at full speed
    assert site.end_s("a") == pytest.approx(130)
    totals = site.truth.runs[JobId("a")].totals
    assert (totals.resizes, totals.first_size, totals.last_size) == (2, 4, 4)
    assert totals.core_ns / S == pytest.approx(40 * 4 + 60 * 2 + 30 * 4)
    assert site.ended == [site.agents[0].node_id]


def test_a_lower_cap_slows_a_job_from_then_on() -> None:
    site = Site()
    site.cap(0, 60)
    site.launch("a", pass_work(), 0)
    fast_s, slow_s = LEANMD.time_s(1, 60.0), LEANMD.time_s(1, 40.0)
    site.until(fast_s / 4)
    site.cap(0, 40)
    assert site.end_s("a") == pytest.approx(fast_s / 4 + 0.75 * slow_s)


def test_a_job_waits_for_all_its_processes() -> None:
    site = Site(2)
    site.truth.works[JobId("a")] = ideal(10, 8)
    site.launch("a", ideal(10, 8), 0, 1)
    assert site.truth.sums.running == 1
    assert site.end_s("a") == pytest.approx(10)
    assert site.truth.sums.running == 0
    assert site.truth.sums.nodes_busy == 0


def test_jobs_that_share_a_node_share_what_the_cap_leaves_above_the_floor() -> None:
    site = Site()  # floor 25 W, at most 60 W
    site.cap(0, 42.5)
    work = pass_work(replace(LEANMD, unit=SizeUnit.CORES))
    site.launch("a", work, 0, cpus="0-1")
    (alone,) = site.truth.runs[JobId("a")].places.values()
    assert alone.level_uw == 60 * W, "half the power for half the cores is all of it"
    site.launch("b", work, 0, cpus="2-3")
    levels = [run.places[site.agents[0].node_id].level_uw for run in site.truth.runs.values()]
    assert levels == [round(42.5 * W)] * 2


def test_drawn_power_is_that_of_the_application_and_of_idle_nodes() -> None:
    site = Site(2)
    idle_uw = site.machine.idle_uw
    assert site.truth.sums.drawn_uw == 2 * idle_uw
    site.cap(0, 60)
    site.launch("a", pass_work(), 0)
    useful_uw = 52 * W  # LeanMD gets no faster above it
    assert site.truth.sums.drawn_uw == idle_uw + site.machine.busy_uw(useful_uw)
    site.cap(0, 40)
    assert site.truth.sums.drawn_uw == idle_uw + site.machine.busy_uw(40 * W)
    totals = site.truth.runs[JobId("a")].totals
    end_s = site.end_s("a")
    assert totals.drawn_uw_ns == pytest.approx(site.machine.busy_uw(40 * W) * end_s * S)


def test_a_lowered_cap_counts_until_its_window_has_passed() -> None:
    site = Site()
    site.cap(0, 60)
    assert site.truth.sums.bound_uw == site.machine.busy_uw(60 * W)
    site.cap(0, 30)
    site.until(0.999)
    assert site.truth.sums.bound_uw == site.machine.busy_uw(60 * W)
    site.until(1.001)
    assert site.truth.sums.bound_uw == site.machine.busy_uw(30 * W)


def test_caps_fall_to_the_floor_when_the_lease_ends() -> None:
    site = Site()
    site.cap(0, 60)
    site.until(10_000.5)
    assert site.agents[0].package_cap_uw == 25 * W
    assert site.truth.sums.bound_uw == site.machine.busy_uw(60 * W)
    site.until(10_001.5)
    assert site.truth.sums.bound_uw == site.machine.busy_uw(25 * W)


def test_an_agent_refuses_cores_of_another_job() -> None:
    site = Site()
    site.launch("a", ideal(10), 0, cpus="0-1")
    site.launch("b", ideal(10), 0, cpus="2-3")
    assert site.mask(0, "b", "1-3").reason == "held"
    assert site.agents[0].clashes == 1
    assert site.agents[0].check_masks() == ""


def test_an_agent_finds_a_map_that_does_not_fit_its_cores() -> None:
    site = Site()
    site.truth.works[JobId("a")] = ideal(10)
    fields = {"job_id": JobId("a"), "cpus": CpuSet.parse("0-1")}
    spec = JobSpec(name="a", app="", argv=("x",), mode=ResizeMode.MAP)
    site.tell(
        0,
        act.Launch,
        spec=spec,
        launch_cpus=4,
        rank=0,
        ranks=1,
        processor_map=b"\1\1\0\0",
        **fields,
    )
    assert site.agents[0].check_masks() == ""
    for wrong in (b"", b"\1\0\0\0", b"\1\1"):
        site.tell(0, act.SetMask, processor_map=wrong, **fields)
        assert site.agents[0].check_masks() != ""
