"""Power levels per kind of zone: commands to each zone, charges, and effects of a tight budget."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from unit.core.stage import CHECKED, Stage, W, job_spec, node_spec, on, package, reading

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.power.charge import assigned_uw, fixed_uw
from wattfold.coordinator.core.power.targets import zone_targets

DRAM_W = 18
GPU = "GPU-1a"


def zone(name: str, kind: ZoneKind, least_w: int, most_w: int) -> Zone:
    return Zone(
        name=ZoneName(name),
        kind=kind,
        cap_uw_min=least_w * W,
        cap_uw_max=most_w * W,
        floor_uw=least_w * W,
        window_ns=0,
    )


def full(name: str = "n0") -> NodeSpec:
    """A node of 10 W base power with a package of 10..50 W, DRAM and a GPU.

    The DRAM has 8..24 W and is set to 18 W; the GPU has 20..70 W and is set to 20 W.
    """
    zones = (
        package(),
        zone("dram-0", ZoneKind.DRAM, 8, 24),
        zone("gpu-1a", ZoneKind.GPU, 20, 70),
    )
    return node_spec(name, zones=zones, gpus=(GPU,))


def levelled(one: Assignment, dram_w: float = 0, gpu_w: float = 0) -> Assignment:
    levels = Levels(dram_uw=round(dram_w * W), gpu_uw=round(gpu_w * W))
    return replace(owning(one) if gpu_w else one, levels=levels)


def owning(one: Assignment) -> Assignment:
    """The same assignment with the GPU of its nodes."""
    return replace(one, shares=tuple(replace(share, gpus=(GPU,)) for share in one.shares))


def targets_w(*assignments: Assignment) -> dict[str, float]:
    found = zone_targets(full(), assignments, DRAM_W * W)
    return {name.partition("-")[0]: cap_uw / W for name, cap_uw in found.items()}


def test_a_plain_job_leaves_other_zones_as_they_stand() -> None:
    plain = on("a", "n0:0-3", cap_w=33)
    assert targets_w(plain) == {"package": 33, "dram": 18, "gpu": 20}
    assert assigned_uw(plain, [full()], DRAM_W * W) == 23 * W


def test_an_idle_node_is_charged_the_floors_of_its_gpus() -> None:
    assert targets_w() == {"package": 10, "dram": 18, "gpu": 20}
    assert fixed_uw(full(), DRAM_W * W) == (10 + 10 + 18 + 20) * W


def test_a_job_with_a_gpu_is_charged_from_its_floor_to_its_level_or_its_greatest() -> None:
    plain = owning(on("a", "n0:0-3", cap_w=33))
    assert targets_w(plain) == {"package": 33, "dram": 18, "gpu": 70}
    assert assigned_uw(plain, [full()], DRAM_W * W) == (23 + 50) * W
    low = levelled(on("a", "n0:0-3", cap_w=33), gpu_w=45)
    assert targets_w(low) == {"package": 33, "dram": 18, "gpu": 45}
    assert assigned_uw(low, [full()], DRAM_W * W) == (23 + 25) * W
    least = levelled(on("a", "n0:0-3", cap_w=33), gpu_w=20)
    assert assigned_uw(least, [full()], DRAM_W * W) == 23 * W


def test_what_dram_saves_pays_for_no_gpu() -> None:
    job = levelled(on("a", "n0:0-3", cap_w=15), dram_w=8, gpu_w=45)
    assert assigned_uw(job, [full()], DRAM_W * W) == 25 * W


def test_a_job_on_the_whole_node_has_its_levels() -> None:
    job = levelled(on("a", "n0:0-3", cap_w=33), dram_w=12.5, gpu_w=40)
    assert targets_w(job) == {"package": 33, "dram": 12.5, "gpu": 40}
    more = levelled(on("a", "n0:0-3", cap_w=33), dram_w=20)
    assert targets_w(more) == {"package": 33, "dram": 20, "gpu": 20}
    assert assigned_uw(more, [full()], DRAM_W * W) == (23 + 2) * W


def test_a_job_on_some_cores_moves_dram_by_its_share() -> None:
    half = levelled(on("a", "n0:0-1", cap_w=30), dram_w=24)
    assert targets_w(half)["dram"] == 18 + 6 / 2
    assert assigned_uw(half, [full()], DRAM_W * W) == (20 + 6) // 2 * W
    other = levelled(on("b", "n0:2-3", cap_w=30), dram_w=8)
    assert targets_w(half, other)["dram"] == 18 + 6 / 2 - 10 / 2


def test_levels_are_clipped_to_what_the_zones_hold() -> None:
    high = levelled(on("a", "n0:0-3"), dram_w=99, gpu_w=99)
    assert targets_w(high) == {"package": 50, "dram": 24, "gpu": 70}
    assert assigned_uw(high, [full()], DRAM_W * W) == (40 + 6 + 50) * W
    low = levelled(on("a", "n0:0-3"), dram_w=1, gpu_w=1)
    assert targets_w(low) == {"package": 50, "dram": 8, "gpu": 20}


def test_what_a_job_saves_pays_for_itself_only() -> None:
    """A job never adds a negative charge: its end needs no power that another job uses."""
    frugal = levelled(on("a", "n0:0-3", cap_w=15), dram_w=8)
    assert assigned_uw(frugal, [full()], DRAM_W * W) == 0
    paid = levelled(on("a", "n0:0-3", cap_w=35), dram_w=8)
    assert assigned_uw(paid, [full()], DRAM_W * W) == (25 - 10) * W


def test_zones_without_a_cap_have_no_level() -> None:
    bare = node_spec(zones=(package(),))
    job = levelled(on("a", "n0:0-3", cap_w=33), dram_w=12, gpu_w=40)
    assert zone_targets(bare, [job], 0) == {"package-0": 33 * W}
    assert assigned_uw(job, [bare]) == 23 * W


def caps_sent(actions: list[act.Action]) -> list[act.SetCaps]:
    return [action for action in actions if isinstance(action, act.SetCaps)]


class Levelled(Stage):
    """A stage whose nodes have zones of all three kinds and obey immediately."""

    def __init__(self, budget_w: float = 1000) -> None:
        super().__init__(budget_w, start=False)
        settings = replace(CHECKED, dram_cap_uw=DRAM_W * W)
        self.core = CoordinatorCore(round(budget_w * W), settings)
        self.start()

    def full_up(self, *names: str) -> None:
        caps = (reading(10), reading(8, "dram-0"), reading(20, "gpu-1a"))
        for name in names:
            self.register(name)
            self.send(reports.NodeConnected(spec=full(name), caps=caps, processes=()))
            request = self.core.state.nodes[NodeId(name)].lease_request
            self.obey(
                self.send(reports.LeaseRenewed(node_id=NodeId(name), request_id=request, caps=caps))
            )

    def obey(self, actions: list[act.Action]) -> None:
        """Confirm every cap command as requested, including commands that follow from it."""
        for action in caps_sent(actions):
            self.obey(self.answered(action))

    def answered(self, action: act.SetCaps, settles_s: int = 0) -> list[act.Action]:
        """Confirm a cap command as requested; the earlier cap may be drawn for one more window."""
        caps = tuple(
            reports.ZoneReading(zone=name, cap_uw=cap, settles_in_ns=settles_s * 10**9)
            for name, cap in action.caps
        )
        request_id = self.core.state.nodes[action.node_id].caps_request
        return self.send(
            reports.CapsAnswered(node_id=action.node_id, request_id=request_id, caps=caps)
        )

    def held_w(self, name: str = "n0") -> dict[str, float]:
        zones = self.core.state.ledger.accounts[NodeId(name)].zones
        return {zone.partition("-")[0]: one.confirmed_uw / W for zone, one in zones.items()}

    def start_job(self, assignment: Assignment, spec: JobSpec) -> None:
        job = assignment.job_id
        self.submit(job, spec)
        self.need_plan()
        kept = [one.target for one in self.core.state.placed() if one.target]
        self.plan(*kept, assignment)
        for share in assignment.shares:
            self.obey(self.launched(share.node_id, job))
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            self.obey(self.after(2))
            self.obey(self.after(2))


def test_every_zone_is_told_its_own_cap_and_stands_again_after_the_job() -> None:
    stage = Levelled()
    stage.full_up("n0")
    assert stage.held_w() == {"package": 10, "dram": 18, "gpu": 20}
    job = levelled(on("a", "n0:0-3", cap_w=40), dram_w=11, gpu_w=55)
    stage.start_job(job, job_spec(gpus=1))
    assert stage.held_w() == {"package": 40, "dram": 11, "gpu": 55}
    assert stage.charge_w("n0") == 10 + 40 + 11 + 55
    stage.obey(stage.process_ended("n0", "a"))
    stage.settle()
    assert stage.held_w() == {"package": 10, "dram": 18, "gpu": 20}


def test_a_gpu_goes_up_only_into_watts_that_another_one_has_left() -> None:
    """One job ends and another begins.

    Neither the sum of their charges nor the sum of the sent caps exceeds the budget.
    """
    idle_w = 2 * fixed_uw(full(), DRAM_W * W) / W
    stage = Levelled(idle_w + 50)
    stage.full_up("n0", "n1")
    stage.start_job(owning(on("a", "n0:0-3", cap_w=10)), job_spec(gpus=1))
    assert stage.held_w("n0") == {"package": 10, "dram": 18, "gpu": 70}
    assert stage.committed_w == idle_w + 50
    stage.submit("b", job_spec(gpus=1))
    stage.need_plan()
    waits = owning(on("b", "n1:0-3", cap_w=10))
    stage.plan(stage.job("a").target, waits)
    said = "needs 50.00 W above the floors; 0.00 W are available"
    assert stage.job("b").reason == f"omitted from the last plan: {said}"
    lowered = caps_sent(stage.process_ended("n0", "a"))
    assert [(one.node_id, one.caps) for one in lowered] == [("n0", (("gpu-1a", 20 * W),))]
    stage.need_plan()
    assert not caps_sent(stage.plan(waits))
    # The command to lower the first GPU is pending, so it may still draw its full cap.
    assert not caps_sent(stage.launched("n1", "b"))
    assert not caps_sent(stage.answered(lowered[0], settles_s=1))
    (raised,) = caps_sent(stage.after(1))
    assert (raised.node_id, raised.caps) == ("n1", (("gpu-1a", 70 * W),))
    assert stage.committed_w == idle_w + 50
    stage.obey([raised])
    assert stage.held_w("n0") == {"package": 10, "dram": 18, "gpu": 20}
    assert stage.held_w("n1") == {"package": 10, "dram": 18, "gpu": 70}
    assert stage.committed_w == idle_w + 50


def test_two_gpus_at_lower_levels_fit_where_one_fits_at_its_greatest() -> None:
    idle_w = 2 * fixed_uw(full(), DRAM_W * W) / W
    stage = Levelled(idle_w + 50)
    stage.full_up("n0", "n1")
    for job, node in (("a", "n0"), ("b", "n1")):
        low = levelled(on(job, f"{node}:0-3", cap_w=10), gpu_w=45)
        stage.start_job(low, job_spec(gpus=1))
    assert [stage.held_w(node)["gpu"] for node in ("n0", "n1")] == [45, 45]
    assert stage.committed_w == idle_w + 50


def test_a_job_with_gpus_that_runs_now_may_make_room_for_one_that_waits() -> None:
    for gpus, planned in ((0, False), (1, True)):
        stage = Levelled()
        stage.full_up("n0")
        stage.submit("a", job_spec(gpus=gpus, kind=JobKind.RIGID))
        stage.submit("b", job_spec())
        stage.need_plan()
        own = owning(on("a", "n0:0-3")) if gpus else on("a", "n0:0-3")
        while stage.core.state.solving:
            stage.plan(own)
        solves = [a for a in stage.launched("n0", "a") if isinstance(a, act.Solve)]
        assert bool(solves) is planned


def test_a_lower_budget_takes_gpus_down_with_the_packages() -> None:
    idle_w = fixed_uw(full(), DRAM_W * W) / W
    stage = Levelled(idle_w + 90)
    stage.full_up("n0")
    stage.start_job(owning(on("a", "n0:0-3", cap_w=50)), job_spec(gpus=1))
    assert stage.held_w() == {"package": 50, "dram": 18, "gpu": 70}
    stage.obey(stage.budget(idle_w + 45, 30))
    stage.settle()
    assert stage.held_w() == {"package": 30, "dram": 18, "gpu": 45}
    stage.obey(stage.budget(idle_w, 30))
    stage.settle()
    assert stage.held_w() == {"package": 10, "dram": 18, "gpu": 20}
    stage.obey(stage.budget(idle_w + 90, 30))
    stage.settle()
    assert stage.held_w() == {"package": 50, "dram": 18, "gpu": 70}


def test_a_change_of_a_level_alone_is_followed() -> None:
    stage = Levelled()
    stage.full_up("n0")
    job = levelled(on("a", "n0:0-3", cap_w=40), dram_w=11)
    stage.start_job(job, job_spec())
    stage.need_plan()
    stage.obey(stage.plan(levelled(on("a", "n0:0-3", cap_w=40), dram_w=22)))
    stage.settle()
    assert stage.held_w() == {"package": 40, "dram": 22, "gpu": 20}


def test_levels_asked_for_hold_whatever_the_plan_says() -> None:
    stage = Levelled()
    stage.full_up("n0")
    stage.start_job(on("a", "n0:0-3", cap_w=40), job_spec(levels=Levels(dram_uw=12 * W)))
    assert stage.held_w()["dram"] == 12
    assert stage.job("a").target.levels == Levels(dram_uw=12 * W)


def test_a_plan_that_fits_with_its_levels_is_not_scaled() -> None:
    """Job a spends its DRAM savings on its own package; job b has a DRAM level above the default
    cap.
    """
    idle_w = 2 * fixed_uw(full(), DRAM_W * W) / W
    stage = Levelled(idle_w + 20 + 26)
    stage.full_up("n0", "n1")
    low = levelled(on("a", "n0:0-3", cap_w=40), dram_w=8)
    high = levelled(on("b", "n1:0-3", cap_w=30), dram_w=24)
    stage.start_job(low, job_spec())
    stage.start_job(high, job_spec())
    assert stage.held_w("n0") == {"package": 40, "dram": 8, "gpu": 20}
    assert stage.held_w("n1") == {"package": 30, "dram": 24, "gpu": 20}
    assert stage.committed_w == idle_w + 20 + 26


def test_a_start_is_refused_that_fits_only_without_its_level() -> None:
    idle_w = fixed_uw(full(), DRAM_W * W) / W
    stage = Levelled(idle_w + 22)
    stage.full_up("n0")
    stage.submit("a", job_spec())
    stage.need_plan()
    stage.plan(levelled(on("a", "n0:0-3", cap_w=30), dram_w=24))
    said = "needs 26.00 W above the floors; 22.00 W are available"
    assert stage.job("a").reason == f"omitted from the last plan: {said}"


def test_a_lower_budget_takes_dram_back_to_its_standing_cap_at_most() -> None:
    idle_w = fixed_uw(full(), DRAM_W * W) / W
    stage = Levelled(idle_w + 46)
    stage.full_up("n0")
    stage.start_job(levelled(on("a", "n0:0-3", cap_w=50), dram_w=24), job_spec())
    assert stage.held_w() == {"package": 50, "dram": 24, "gpu": 20}
    stage.obey(stage.budget(idle_w + 23, 30))
    stage.settle()
    assert stage.held_w() == {"package": 30, "dram": 21, "gpu": 20}
    stage.obey(stage.budget(idle_w, 30))
    stage.settle()
    assert stage.held_w() == {"package": 10, "dram": 18, "gpu": 20}


def test_a_job_of_a_journal_without_levels_has_none() -> None:
    stage = Levelled()
    stage.full_up("n0")
    stage.start_job(on("a", "n0:0-3", cap_w=40), job_spec())
    state = json.loads(codec.dump_state(stage.core.state))
    (job,) = state["jobs"].values()
    del job["spec"]["levels"], job["target"]["levels"]
    loaded = codec.load_state(json.dumps(state))
    assert loaded == stage.core.state
    assert loaded.jobs[next(iter(loaded.jobs))].target.levels == PLAIN
    submitted = ev.JobSubmitted(job_id="b", spec=job_spec())
    kind, body = codec.dump_event(submitted)
    plain = json.loads(body)
    del plain["spec"]["levels"]
    assert codec.load_event(kind, json.dumps(plain)) == submitted


@pytest.mark.parametrize("levels", [PLAIN, Levels(dram_uw=9 * W), Levels(dram_uw=1, gpu_uw=2)])
def test_levels_are_in_the_journal(levels: Levels) -> None:
    stage = Levelled()
    stage.full_up("n0")
    job = replace(on("a", "n0:0-3"), levels=levels)
    stage.start_job(job, job_spec(levels=levels))
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    kept: Job = loaded.jobs[job.job_id]
    assert (kept.spec.levels, kept.target.levels) == (levels, levels)
    assert loaded == stage.core.state
