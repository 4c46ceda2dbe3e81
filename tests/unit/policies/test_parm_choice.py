"""Options, weights, the resulting problem, and the prices of changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from unit.policies.parm_tables import options_of, timed

from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.models.resize_cost import Resize
from wattfold.coordinator.policies.parm.choice import (
    SOLVING_SHARE,
    Ages,
    Choice,
    OptionLimits,
    OptionTable,
    Shared,
    Solving,
    assemble,
    choose,
    stalled,
    stalls_s,
    weights,
)
from wattfold.coordinator.policies.parm.options import (
    Alternative,
    Charge,
    JobOptions,
    NodeKind,
    OptionShape,
    spaced_caps,
    spaced_sizes,
)

W = 1_000_000
LEANMD = replace(APPLICATIONS["LeanMD"], average_parallelism=20.0, sigma=0.4, t1_s=4000.0)
NODES = Charge(kinds=(NodeKind(cores=1, floor_uw=25 * W, most_uw=100 * W),), unit=SizeUnit.NODES)
CAPS = (30 * W, 44 * W, 60 * W)
EXACT = Solving(solver="lagrangian", gap=0.0, deadline_s=5.0)


def options(*sizes: int, least: int = 0, charge: Charge = NODES) -> JobOptions:
    return options_of(LEANMD, sizes, CAPS, least or sizes[0], charge)


def test_an_option_is_a_size_and_a_cap() -> None:
    out = options(2, 4)
    assert out.layout.size.tolist() == [2, 2, 2, 4, 4, 4]
    assert out.layout.cap_uw.tolist() == [*CAPS, *CAPS]
    assert out.layout.units.tolist() == out.layout.size.tolist()
    assert (out.layout.power_uw // W).tolist() == [10, 38, 70, 20, 76, 140]
    assert out.total_s[4] == pytest.approx(LEANMD.time_s(4, 44))


def test_speedups_are_those_of_equation_7() -> None:
    out = options(4, least=2)
    assert out.slowest_s == pytest.approx(LEANMD.time_s(2, 30))
    assert out.speedup.tolist() == pytest.approx((out.slowest_s / out.total_s).tolist())


def test_a_job_without_a_size_has_no_options() -> None:
    out = options_of(LEANMD, (), CAPS, 3, NODES)
    assert len(out) == 0
    assert len(out.efficient) == 0
    assert out.cheapest == -1


SMALL_KIND = NodeKind(cores=4, floor_uw=25 * W, most_uw=50 * W)
LARGE_KIND = NodeKind(cores=8, floor_uw=30 * W, most_uw=70 * W)


@pytest.mark.parametrize(
    ("unit", "exclusive", "units", "powers_w"),
    [
        (SizeUnit.NODES, False, 3 * 4, [3 * 20, 3 * 25]),
        (SizeUnit.CORES, False, 3, [3 * 20 / 4, 3 * 25 / 4]),
        (SizeUnit.CORES, True, 4, [3 * 20 / 4, 3 * 25 / 4]),
    ],
)
def test_an_option_is_charged_with_what_its_nodes_can_take(
    unit: SizeUnit, exclusive: bool, units: int, powers_w: list[float]
) -> None:
    charge = Charge(kinds=(SMALL_KIND,), unit=unit, exclusive=exclusive)
    out = options_of(LEANMD, (3,), (45 * W, 60 * W), 3, charge)
    assert out.layout.units.tolist() == [units] * 2
    assert out.layout.power_uw.tolist() == [round(power_w * W) for power_w in powers_w]


@pytest.mark.parametrize(
    ("spread", "exclusive", "cores"),
    [
        (Spread.ANY, False, [3, 6, 9]),
        (Spread.ANY, True, [8, 8, 16]),
        (Spread.APART, True, [8, 16, 24]),
    ],
)
def test_a_unit_takes_its_cores_or_whole_nodes(
    spread: Spread, exclusive: bool, cores: list[int]
) -> None:
    charge = Charge(
        kinds=(LARGE_KIND,), unit=SizeUnit.UNITS, unit_cores=3, spread=spread, exclusive=exclusive
    )
    assert charge.units(np.array([1, 2, 3])).tolist() == cores


def test_a_job_on_unlike_nodes_is_charged_on_each_and_as_slow_as_the_slowest() -> None:
    charge = Charge(kinds=(SMALL_KIND, LARGE_KIND), unit=SizeUnit.NODES, nodes=(1, 2))
    one = Alternative(
        profiles=(LEANMD, LEANMD),
        sizes=(3,),
        caps_uw=(40 * W, 52 * W),
        charge=charge,
        at=(0, 1),
    )
    out = timed(OptionShape([one], 2, (SMALL_KIND, LARGE_KIND)), LEANMD, 2)
    assert out.layout.units.tolist() == [4 + 2 * 8] * 2
    assert out.layout.power_uw.tolist() == [(15 + 2 * 10) * W, (25 + 2 * 22) * W]
    assert out.total_s.tolist() == [LEANMD.time_s(3, 40), LEANMD.time_s(3, 50)]
    assert out.slowest_s == LEANMD.time_s(2, 40)


def test_alternatives_are_one_table_with_one_reference() -> None:
    small = Alternative(
        profiles=(LEANMD,),
        sizes=(1,),
        caps_uw=(30 * W, 50 * W),
        charge=Charge(kinds=(SMALL_KIND,), unit=SizeUnit.NODES),
    )
    large = Alternative(
        profiles=(LEANMD,),
        sizes=(1, 2),
        caps_uw=(52 * W,),
        charge=Charge(kinds=(LARGE_KIND,), unit=SizeUnit.NODES),
        at=(1,),
    )
    out = timed(OptionShape([small, large], 1, (SMALL_KIND, LARGE_KIND)), LEANMD, 2)
    assert out.layout.place.tolist() == [0, 0, 1, 1]
    assert out.layout.units_by_kind is not None
    assert out.layout.units_by_kind.tolist() == [[4, 0], [4, 0], [0, 8], [0, 16]]
    assert out.slowest_s == LEANMD.time_s(1, 30)
    assert out.speedup.tolist() == pytest.approx(
        [
            LEANMD.time_s(1, 30) / LEANMD.time_s(n, w)
            for n, w in [(1, 30), (1, 50), (1, 52), (2, 52)]
        ]
    )


def test_what_is_better_on_other_nodes_is_no_substitute() -> None:
    """An option on a large node is cheaper and no slower, but the large nodes may be in use."""
    kinds = (
        NodeKind(cores=4, floor_uw=25 * W, most_uw=60 * W),
        NodeKind(cores=4, floor_uw=40 * W, most_uw=60 * W),
    )
    parts = tuple(
        Alternative(
            profiles=(LEANMD,),
            sizes=(1,),
            caps_uw=(44 * W, 52 * W, 60 * W),
            charge=Charge(kinds=(kind,), unit=SizeUnit.NODES),
            at=(at,),
        )
        for at, kind in enumerate(kinds)
    )
    assert timed(OptionShape(parts, 1, kinds), LEANMD, 2).efficient.layout.place.tolist() == [
        0,
        0,
        1,
        1,
    ]


def test_a_cap_below_the_floor_costs_nothing() -> None:
    charge = Charge(
        kinds=(NodeKind(cores=1, floor_uw=50 * W, most_uw=100 * W),), unit=SizeUnit.NODES
    )
    assert options(2, charge=charge).layout.power_uw.tolist() == [0, 0, 20 * W]


def test_options_that_others_beat_are_left_out() -> None:
    # Above p_high, 52 W for LeanMD, a cap brings no speed; nor do nodes beyond 2 A - 1.
    out = options_of(LEANMD, (39, 60), (44 * W, 52 * W, 60 * W), 39, NODES).efficient
    assert list(zip(out.layout.size.tolist(), out.layout.cap_uw.tolist(), strict=True)) == [
        (39, 44 * W),
        (39, 52 * W),
    ]


def test_of_equal_options_the_first_stays() -> None:
    free = Charge(kinds=(NodeKind(cores=1, floor_uw=70 * W, most_uw=100 * W),), unit=SizeUnit.NODES)
    out = options_of(LEANMD, (2,), (55 * W, 60 * W), 2, free).efficient
    assert out.layout.cap_uw.tolist() == [55 * W]


def test_one_size_of_them() -> None:
    out = options(2, 4).of_size(4)
    assert out.layout.size.tolist() == [4, 4, 4]
    assert out.slowest_s == pytest.approx(LEANMD.time_s(2, 30))


def test_the_cheapest_is_of_least_power_then_fewest_units() -> None:
    free = Charge(kinds=(NodeKind(cores=1, floor_uw=44 * W, most_uw=100 * W),), unit=SizeUnit.NODES)
    assert options(2, 4, charge=free).cheapest == 0
    assert options(2, 4).cheapest == 0


@pytest.mark.parametrize(
    ("least", "most", "count", "sizes"),
    [
        (2, 9, 8, tuple(range(2, 10))),
        (2, 4, 8, (2, 3, 4)),
        (10, 100, 4, (10, 40, 70, 100)),
        (5, 5, 8, (5,)),
        (5, 4, 8, ()),
        (6, 4, 8, ()),
        (2, 9, 1, (2,)),
    ],
)
def test_sizes_are_spaced_evenly(least: int, most: int, count: int, sizes: tuple[int, ...]) -> None:
    assert spaced_sizes(least, most, count) == sizes


def test_caps_lie_between_what_the_job_and_the_nodes_can_use() -> None:
    caps = spaced_caps(LEANMD, 6, 25.0, 45.0)
    assert len(caps) == 6
    assert (caps[0], caps[-1]) == (30 * W, 45 * W)
    assert all(cap % 125_000 == 0 for cap in caps)


def test_weights_are_those_of_equation_8() -> None:
    jobs = Ages(
        slowest_s=np.asarray([100.0, 100.0, 10.0]),
        done=np.asarray([0.0, 0.5, 1.0]),
        submitted_ns=np.asarray([0, 20 * 10**9, 20 * 10**9]),
        priority=np.asarray([1.0, 3.0, 1.0]),
    )
    out = weights(jobs, 20 * 10**9, 0.5)
    assert out.tolist() == pytest.approx([120**0.5, 3 * 50**0.5, 0.001**0.5])


def test_the_problem_holds_every_option_at_its_weight() -> None:
    first, second = options(2, 4), options(3)
    problem = assemble(
        OptionTable.of([first, options_of(LEANMD, (), CAPS, 9, NODES), second]),
        np.asarray([2.0, 1.0, 5.0]),
        [False, False, True],
        OptionLimits(units=6, power_uw=100 * W, shared=(Shared(jobs=(0, 2), units_max=5),)),
    )
    assert problem.job_of.tolist() == [0] * 6 + [2] * 3
    assert problem.value.tolist() == [*(2 * first.speedup), *(5 * second.speedup)]
    assert problem.units.tolist() == [2, 2, 2, 4, 4, 4, 3, 3, 3]
    assert problem.must_run.tolist() == [False, False, True]
    assert problem.rows[0].option_indices.tolist() == list(range(9))
    assert problem.rows[0].coefficients.tolist() == problem.units.tolist()
    assert problem.rows[0].limit == 5


def chosen(solving: Solving, power_w: int, units: int = 6) -> Choice:
    jobs = [options(2, 4), options_of(LEANMD, (), CAPS, 9, NODES), options(3)]
    limits = OptionLimits(units=units, power_uw=power_w * W)
    return choose(OptionTable.of(jobs), np.ones(3), [False, False, True], limits, solving)


@pytest.mark.parametrize("solver", ["lagrangian", "glpk", "greedy"])
def test_a_choice_counts_the_options_of_each_job(solver: str) -> None:
    # GLPK starts its own process, which takes seconds on a busy machine.
    out = chosen(replace(EXACT, solver=solver, deadline_s=90.0), 1000)
    assert out.solver == solver
    assert out.picks.tolist() == [2, -1, 2]


def test_solving_gets_its_share_of_a_round() -> None:
    left_s = replace(EXACT, deadline_s=1000.0).deadline().left_s
    assert 0 < left_s <= SOLVING_SHARE * 1000.0 < 1000.0


def test_jobs_that_must_run_but_do_not_fit() -> None:
    out = chosen(EXACT, 10)
    assert not out.usable
    assert out.picks.tolist() == [-1, -1, -1]


def test_a_limit_below_zero_is_taken_for_zero() -> None:
    out = choose(
        OptionTable.of([options(2)]),
        np.ones(1),
        [False],
        OptionLimits(units=-1, power_uw=-1),
        EXACT,
    )
    assert out.usable
    assert out.picks.tolist() == [-1]


def test_no_jobs_are_no_choice() -> None:
    out = choose(OptionTable.of([]), np.zeros(0), [], OptionLimits(units=4, power_uw=W), EXACT)
    assert out.usable
    assert out.picks.tolist() == []


def test_a_stall_is_twice_the_resize() -> None:
    sizes = np.asarray([2, 2, 4, 8])
    out = stalls_s(sizes, 4, 4096.0, 425.0)
    grown = Resize(data_mb=4096.0, nodes_from=4, nodes_to=8, link_mb_per_s=425.0)
    shrunk = replace(grown, nodes_to=2)
    assert out.tolist() == pytest.approx(
        [2 * shrunk.total_s, 2 * shrunk.total_s, 0.0, 2 * grown.total_s]
    )


def test_a_stall_takes_its_share_of_the_remaining_time() -> None:
    before = options(2, 4)
    stall_s = np.where(before.layout.size == 4, 100.0, 0.0)
    out = stalled(before, stall_s, 0.75)
    assert out.speedup[:3].tolist() == before.speedup[:3].tolist()
    left_s = 0.25 * before.total_s[3:]
    kept = left_s / (left_s + 100.0)
    assert out.speedup[3:].tolist() == pytest.approx((before.speedup[3:] * kept).tolist())


def test_at_its_end_a_job_keeps_a_value() -> None:
    before = options(2, 4)
    out = stalled(before, np.where(before.layout.size == 4, 100.0, 0.0), 1.0)
    assert np.all(out.speedup > 0)
    assert out.speedup[0] == before.speedup[0]
    assert out.speedup[5] < 1e-3


def test_jobs_that_differ_in_their_work_are_as_each_by_itself() -> None:
    """Equal to the last digit, as are the options that remain."""
    charge = Charge(kinds=(LARGE_KIND,), unit=SizeUnit.NODES)
    caps_uw = (31 * W, 40 * W, 52 * W, 66 * W)
    one = Alternative(profiles=(LEANMD,), sizes=(2, 7, 39, 60), caps_uw=caps_uw, charge=charge)
    works = np.random.default_rng(1).uniform(1, 9999, 200)
    for t1_s, own in zip(works.tolist(), OptionShape([one], 2).timed(works[:, None]), strict=True):
        profile = replace(LEANMD, t1_s=t1_s)
        total_s = profile.times_s(one.sizes, [cap / W for cap in caps_uw]).ravel()
        assert own.total_s.tolist() == total_s.tolist()
        assert own.slowest_s == profile.time_s(2, 31)
        assert own.speedup.tolist() == (own.slowest_s / total_s).tolist()
        keep = own.layout.efficient(own.speedup)
        assert own.efficient.layout.size.tolist() == own.layout.size[keep].tolist()
        assert own.efficient.total_s.tolist() == total_s[keep].tolist()
