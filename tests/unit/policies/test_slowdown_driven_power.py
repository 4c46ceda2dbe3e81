"""Slowdown-driven and power in the service: levels under scarce power, energy against slowdown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import W, held, job, reasons
from unit.policies.test_slowdown_driven import runs as on_cores
from unit.policies.test_slowdown_driven_nodes import at, cores, planned, runs, whole

from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Plan
from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile, SizeUnit
from wattfold.coordinator.policies.slowdown_driven.choice import Guest, Lender, MateChoice, MateEnd
from wattfold.coordinator.policies.slowdown_driven.rules import (
    Mate,
    PowerSharing,
    SharedStart,
    lent_at_most,
    saved_share,
    worth,
    worth_of,
)


def caps(plan: Plan) -> dict[str, float]:
    return {one.job_id: one.cap_uw / W for one in plan.assignments}


def flat(unit: SizeUnit = SizeUnit.NODES) -> PassProfile:
    """Profile of a program that loses little on half of its cores."""
    lulesh = APPLICATIONS["Lulesh"]
    return replace(lulesh, unit=unit, average_parallelism=1.2, sigma=1.0, t1_s=1000)


def loses_little(view: JobView) -> JobView:
    return replace(view, serial_ppm=900_000)


# Levels.


def starved(power: PowerSharing, **fields: object) -> Plan:
    """A mate at 45 W and a free node that completes the combination; 4 of its 29 W are left."""
    jobs = [rigid("r"), runs("a", "n0", **fields), whole("b", 2)]
    return planned(at(jobs, 3, budget_w=3 * 26 + 2 * 29 + 4), power=power, free_nodes=True)


def rigid(name: str, **fields: object) -> JobView:
    return runs(name, "n2", kind=JobKind.RIGID, **fields)


def test_caps_of_guest_and_mate_go_down_to_what_there_is() -> None:
    assert "b" in reasons(starved(PowerSharing.WATTS))
    plan = starved(PowerSharing.ANY)
    given = caps(plan)
    assert given["a"] == given["b"] < 45
    # The level uses everything except its rounding: 8 cores of two nodes at one level.
    used_w = 2 * (given["a"] - 16)
    assert 33 - 2 * 0.125 < used_w <= 33
    slower = {one.job_id: one.expected_total_s for one in plan.assignments}
    assert slower["a"] > 2000 * 1.05
    assert slower["b"] > 20 * 1.05


def test_a_cap_that_its_user_asked_for_stays() -> None:
    plan = starved(PowerSharing.ANY, cap_uw=45 * W)
    assert caps(plan)["a"] == 45
    assert caps(plan)["b"] < 45


def test_a_job_that_would_end_later_at_so_low_a_cap_waits() -> None:
    ends: dict[str, object] = {"time_s": 111, "done": 100 / 111}
    jobs = [rigid("r", **ends), runs("a", "n0", **ends), whole("b", 2)]
    seen = at(jobs, 3, budget_w=3 * 26 + 2 * 29 + 1)
    rules = {"power": PowerSharing.ANY, "free_nodes": True, "mate_end": MateEnd.AFTER}
    assert "b" in cores(planned(replace(seen, budget_uw=10**12), **rules))
    assert "b" in reasons(planned(seen, **rules))


# Energy.


def test_nothing_is_saved_where_jobs_are_slowed_in_proportion() -> None:
    # A guest on half of 8 cores for 20 s: its mate ends 10 s later.
    job = SharedStart(power=40, asked=10, takes=20, has=4, cores=8)
    mate = Mate(power=29, asked=1000, later=10, given=4, cores=8)
    assert saved_share(job, [mate]) == pytest.approx(0)
    assert worth(job, [mate], sooner=0, weight=100) == pytest.approx(-0.01)
    assert worth(job, [mate], sooner=10, weight=0) == pytest.approx(0.99)
    assert saved_share(job._replace(power=0), [mate]) == 0


def test_a_mate_that_loses_nothing_saves_all_that_its_guest_would_take() -> None:
    guest = Guest(nodes=2, asked=100, cores=8, least=1, serial_ppm=990_000, power_uw=29)
    mate = Lender(1, 2, 0, 1000, 900, 4, 990_000, 29)
    pick = MateChoice(mates=(1,), cores=4, takes=101, free=0, impact=1.0)
    assert worth_of(pick, guest, [mate], sooner=-1, weight=1.0) == pytest.approx(0.97, abs=0.02)


def test_energy_is_weighed_against_slowdown_though_a_node_is_free() -> None:
    mate, guest = runs("a", "n0", "n1"), whole("b", 2, profile=flat())
    seen, own = at([loses_little(mate), guest], 4), {"n2": "0-7", "n3": "0-7"}
    assert cores(planned(seen))["b"] == own
    assert set(cores(planned(seen, power=PowerSharing.WEIGH))["b"]) == {"n0", "n1"}
    assert cores(planned(seen, power=PowerSharing.WEIGH, energy_weight=0.0))["b"] == own
    # Nothing would be saved with proportional slowdown.
    plain = at([mate, whole("b", 2)], 4)
    assert cores(planned(plain, power=PowerSharing.WEIGH, energy_weight=100.0))["b"] == own


def test_who_would_wait_shares_if_its_gain_exceeds_what_its_mate_loses() -> None:
    """It ends 3 s sooner, a third of its requested time; its mate loses 9 s, of 12 or of 1000."""
    for asked_s, shares in ((12.0, False), (1000.0, True)):
        began_s = 112 - asked_s
        times = {"started_s": began_s, "submitted_s": began_s, "done": 1 - 12 / asked_s}
        seen = at([runs("a", "n0", time_s=asked_s, **times), whole("b", 1, time_s=9)], 1)
        rules = {"mate_end": MateEnd.AFTER}
        assert "b" in cores(planned(seen, **rules))
        assert ("b" in cores(planned(seen, power=PowerSharing.WEIGH, **rules))) is shares


def test_a_job_on_cores_is_weighed_on_its_node() -> None:
    mate = replace(on_cores("a", "n0:0-7"), serial_ppm=900_000)
    guest = job("b", 1, 8, time_s=10, submitted_s=90, profile=flat(SizeUnit.CORES))
    seen = at([mate, guest])
    assert cores(planned(seen))["b"] == {"n1": "0-7"}
    assert set(cores(planned(seen, power=PowerSharing.WEIGH))["b"]) == {"n0"}


# Mates.


def test_the_one_that_loses_less_lends() -> None:
    mates = [runs("a", "n0"), loses_little(runs("c", "n1"))]
    assert set(cores(planned(at([*mates, whole("b", 1)])))["b"]) == {"n1"}
    mates = [loses_little(runs("a", "n0")), runs("c", "n1")]
    assert set(cores(planned(at([*mates, whole("b", 1)])))["b"]) == {"n0"}


def test_those_known_to_lose_much_lend_no_more_than_half() -> None:
    assert [lent_at_most(0.75, 8, known) for known in (None, 0, 990_000)] == [6, 4, 6]
    given = cores(planned(at([runs("a", "n0"), whole("b", 1)], 1), sharing_factor=0.75))
    assert given["b"] == {"n0": "2-7"}
    linear = replace(runs("a", "n0"), serial_ppm=0)
    given = cores(planned(at([linear, whole("b", 1)], 1), sharing_factor=0.75))
    assert given["b"] == {"n0": "4-7"}


def test_a_job_that_shares_is_predicted_by_what_it_loses() -> None:
    shared = replace(
        loses_little(runs("a", "n0:0-3", resized_s=50, done=0.5)),
        current=replace(held("a", "n0:0-3", total_s=1100), size=1),
    )
    back = planned(at([shared], 1))
    assert back.assignments[0].expected_total_s == 1000
    lends = planned(at([loses_little(runs("a", "n0")), whole("b", 1)], 1))
    times = {one.job_id: one.expected_total_s for one in lends.assignments}
    # 0.9 + 0.1 * 2 of 1000 s.
    assert times == {"a": pytest.approx(1100), "b": 20}
