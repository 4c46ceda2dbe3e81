"""Jobs that count in units: resources per node, valid placements, and minimum power."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import job_spec, on

from wattfold.coordinator.core.model.amounts import GIB, Amounts
from wattfold.coordinator.core.model.jobs.job_units import (
    counted,
    least_uw,
    misshapen,
    size_text,
    units_over,
    units_within,
)
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.models.pass_model import SizeUnit


def units(low: int = 3, high: int = 0, **fields: Any) -> JobSpec:
    """Units of two cores, 4 GiB and a GPU."""
    chosen: dict[str, Any] = {"unit_cores": 2, "memory_bytes": 4 * GIB, "gpus": 1, **fields}
    return job_spec(low, high or low, kind=JobKind.MOLDABLE, unit=SizeUnit.UNITS, **chosen)


def test_a_node_has_of_everything_as_often_as_of_units() -> None:
    spec = units()
    assert [spec.units_on(cores) for cores in (2, 4, 8)] == [1, 2, 4]
    assert spec.amounts_on(6) == Amounts(memory_bytes=12 * GIB, gpus=3)
    assert spec.tasks_on(6) == 3
    assert spec.least_on_node == 2


def test_other_jobs_have_the_same_of_every_node_whatever_its_cores() -> None:
    spec = job_spec(1, 8, unit=SizeUnit.CORES, memory_bytes=GIB, gpus=2, tasks_per_node=2)
    assert spec.amounts_on(7) == spec.unit_amounts == Amounts(memory_bytes=GIB, gpus=2)
    assert (spec.units_on(7), spec.tasks_on(7)) == (1, 2)


@pytest.mark.parametrize("kind", list(JobKind))
def test_units_neither_lend_nor_borrow(kind: JobKind) -> None:
    spec = job_spec(1, 2, kind=kind, unit=SizeUnit.UNITS, unit_cores=2)
    assert not spec.lends
    assert not spec.borrows
    assert not spec.alone


@pytest.mark.parametrize(
    ("spread", "places", "wrong"),
    [
        (Spread.ANY, ("n0:0-3", "n1:0-1"), ""),
        (Spread.ANY, ("n0:0-5",), ""),
        (Spread.ANY, ("n0:0-1", "n1:0-1"), "size 3 does not match the assigned 2 units"),
        (
            Spread.ANY,
            ("n0:0-2", "n1:0-2"),
            "3 cores of n0 are not a multiple of the unit size, 2 cores",
        ),
        (Spread.TOGETHER, ("n0:0-5",), ""),
        (Spread.TOGETHER, ("n0:0-3", "n1:0-1"), "its units are on 2 nodes"),
        (Spread.APART, ("n0:0-1", "n1:0-1", "n2:2-3"), ""),
        (
            Spread.APART,
            ("n0:0-3", "n1:0-1"),
            "2 units are on n0, but the job requires one unit per node",
        ),
    ],
)
def test_shares_are_a_place_only_as_units_are_spread(
    spread: Spread, places: tuple[str, ...], wrong: str
) -> None:
    said = misshapen(units(spread=spread), 3, on("a", *places).shares)
    assert said.startswith(wrong)
    assert bool(said) == bool(wrong)


def test_sizes_of_all_units_are_counted() -> None:
    shares = on("a", "n0:0-3", "n1:0-1").shares
    assert counted(units(), shares) == 3
    assert counted(job_spec(unit=SizeUnit.NODES), shares) == 2
    assert counted(job_spec(unit=SizeUnit.CORES), shares) == 6


@pytest.mark.parametrize(
    ("free", "most"),
    [
        (Amounts(cores=9, memory_bytes=64 * GIB, gpus=9), 4),
        (Amounts(cores=9, memory_bytes=11 * GIB, gpus=9), 2),
        (Amounts(cores=9, memory_bytes=64 * GIB, gpus=1), 1),
        (Amounts(cores=1, memory_bytes=64 * GIB, gpus=9), 0),
        (Amounts(cores=9, memory_bytes=-GIB, gpus=9), 0),
    ],
)
def test_what_is_scarce_says_how_many_fit(free: Amounts, most: int) -> None:
    assert units_within(units(), free) == most
    assert units_within(units(spread=Spread.APART), free) == min(most, 1)


def test_together_the_largest_node_counts_else_all_do() -> None:
    assert units_over(units(), [3, 2, 0]) == 5
    assert units_over(units(spread=Spread.TOGETHER), [3, 2, 0]) == 3
    assert units_over(units(spread=Spread.TOGETHER), []) == 0


def test_the_least_power_is_that_of_the_thriftiest_nodes() -> None:
    each_uw = [5, 1, 3]

    def takes(at: int, cores: int) -> int:
        return each_uw[at] * cores

    assert least_uw(units(3), 3, [3, 2, 3], takes) == 2 * 2 * 1 + 2 * 3
    assert least_uw(units(3, spread=Spread.TOGETHER), 3, [3, 2, 3], takes) == 3 * 2 * 3
    assert least_uw(units(9), 9, [3, 2, 3], takes) is None


def test_people_read_units_with_their_cores() -> None:
    assert size_text(units(), 4) == "4 units of 2 cores"
    assert size_text(units(unit_cores=1), 1) == "1 unit of 1 core"
    assert size_text(job_spec(unit=SizeUnit.NODES), 1) == "1 node"
