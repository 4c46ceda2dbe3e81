"""Run times under DRAM caps: effects of the assumptions, and agreement with the published model."""

from __future__ import annotations

import numpy as np
import pytest

from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import APPLICATIONS

MODEL = DramModel()
CAPS = [25.0, 30.0, 36.0, 60.0]


@pytest.mark.parametrize(
    ("app", "need_w", "slowdown"),
    [
        ("Jacobi2D", 16.5, 2.58),
        ("Wave2D", 15.1, 1.46),
        ("Lulesh", 12.9, 1.20),
        ("AMR", 12.5, 1.06),
        ("LeanMD", 11.6, 1.04),
    ],
)
def test_the_table_of_the_module(app: str, need_w: float, slowdown: float) -> None:
    profile = APPLICATIONS[app]
    assert MODEL.need_w(profile) == pytest.approx(need_w, abs=0.05)
    assert MODEL.slowdowns(profile, [60.0], [10.0])[0, 0] == pytest.approx(slowdown, abs=0.005)


@pytest.mark.parametrize("app", sorted(APPLICATIONS))
def test_with_the_standing_cap_times_are_the_published_ones(app: str) -> None:
    profile = APPLICATIONS[app]
    times = MODEL.times_s(profile, [1, 20, 200], CAPS, [18.0, 35.0])
    assert times.shape == (3, 4, 2)
    for column in range(2):
        assert np.allclose(times[:, :, column], profile.times_s([1, 20, 200], CAPS), rtol=1e-12)


@pytest.mark.parametrize("app", sorted(APPLICATIONS))
def test_more_power_never_makes_a_job_slower(app: str) -> None:
    slowdowns = MODEL.slowdowns(APPLICATIONS[app], CAPS, [8.0, 9.0, 10.0, 14.0, 18.0])
    assert np.all(np.diff(slowdowns, axis=0) <= 1e-12)
    assert np.all(np.diff(slowdowns, axis=1) <= 1e-12)
    assert np.all(np.isfinite(slowdowns))


def test_memory_time_grows_as_bandwidth_shrinks() -> None:
    jacobi = APPLICATIONS["Jacobi2D"]
    half_w = 8.0 + (MODEL.need_w(jacobi) - 8.0) / 2
    assert MODEL.memory_slowdowns(jacobi, [half_w, 8.0, 35.0]).tolist() == pytest.approx(
        [2.0, 1000.0, 1.0]
    )


def test_the_assumptions_can_be_changed() -> None:
    lulesh = APPLICATIONS["Lulesh"]
    assert DramModel(steepness=0.0).need_w(lulesh) == 18.0
    assert DramModel(full_w=30.0, steepness=1.0).need_w(lulesh) == pytest.approx(8 + 22 * 0.7)
    assert DramModel(memory_share_min=0.3).memory_share(lulesh) == 0.3


@pytest.mark.parametrize(
    "fields",
    [{"static_w": 18.0}, {"static_w": -1.0}, {"steepness": -1.0}, {"memory_share_min": 2.0}],
)
def test_assumptions_that_make_no_sense(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="DRAM needs"):
        DramModel(**fields)
