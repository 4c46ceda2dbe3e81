"""A profile learned from little data does not restrict a program, but evidence does; users can
reset it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.adapters.test_learning import run
from unit.cli.command import Command
from unit.core.stage import Stage, node_spec

from wattfold.coordinator.adapters.learning.profiles import Lesson, fit_lesson
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.state.state import StoredProfile
from wattfold.coordinator.models.fit_noise import fit_warning, noise_of
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.models.seen_points import PRIOR_S, SeenPoint
from wattfold.coordinator.policies.resources.estimates import node_curve

CURVE = node_curve(node_spec())


def learnt(*points: tuple[int, float, float], size_max: int = 2) -> PassProfile:
    """Profile learned from (size, rate, observed seconds), all at 50 W, with 1000 units of work."""
    lesson = Lesson(
        app="app",
        unit=SizeUnit.CORES,
        curve=CURVE,
        range_w=(25.0, 60.0),
        work=1000.0,
        size_max=size_max,
        points=tuple(SeenPoint(size=s, cap_w=50.0, rate=r, seconds=t) for s, r, t in points),
    )
    return fit_lesson(lesson).profile


def gain(profile: PassProfile) -> float:
    """Predicted speed-up from one core to two cores."""
    return profile.time_s(1, 50) / profile.time_s(2, 50)


def test_a_run_on_one_core_does_not_say_that_a_second_is_of_no_use() -> None:
    profile = learnt((1, 10.0, 4.0))
    assert gain(profile) > 1.2
    assert profile.time_s(1, 50) == pytest.approx(100, rel=0.1)


def test_neither_do_seconds_of_noise() -> None:
    assert gain(learnt((1, 10.0, 3.0), (2, 10.0, 3.0))) > 1.2


def test_an_hour_of_it_does() -> None:
    assert gain(learnt((1, 10.0, 3600.0), (2, 10.0, 3600.0))) < 1.05


def test_a_program_that_scales_is_seen_to() -> None:
    few = learnt((1, 10.0, PRIOR_S), (2, 19.5, PRIOR_S))
    many = learnt((1, 10.0, 100 * PRIOR_S), (2, 19.5, 100 * PRIOR_S))
    assert abs(gain(many) - 1.95) < abs(gain(few) - 1.95)
    assert gain(many) == pytest.approx(1.95, rel=0.02)


def test_larger_sizes_nobody_tried_stay_worth_trying() -> None:
    profile = learnt((1, 10.0, 20.0), (2, 12.0, 20.0), size_max=16)
    assert profile.time_s(16, 50) < 0.7 * profile.time_s(2, 50)


def test_the_stored_profile_says_what_it_stands_on(tmp_path: Path) -> None:
    stored = run(tmp_path, "regions").core.state.profiles["app/cores"].stored
    [point] = stored.points
    assert (point.size, point.cap_uw) == (4, 40_000_000)
    assert point.rate == pytest.approx(100)
    assert point.observed_s == pytest.approx(5)
    assert point.seconds == pytest.approx(5)
    assert stored.rms_error == pytest.approx(abs(point.fitted_seconds / point.seconds - 1))


# ---- answers to users --------------------------------------------------------------------------


def test_noise_is_how_runs_of_one_point_differ() -> None:
    assert noise_of([(1, 50, 10.0), (2, 50, 6.0)]) is None
    assert noise_of([(1, 50, 10.0), (1, 50, 11.0), (2, 50, 6.0)]) == pytest.approx(0.0674, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "error", "told"),
    [
        ((10.0, 10.1), 0.20, "differ by 0.7%"),
        ((10.0, 13.0), 0.20, ""),
        ((10.0, 10.1), 0.04, ""),
        ((10.0,), 0.20, "no point was run twice"),
        ((10.0,), 0.10, ""),
    ],
)
def test_a_fit_worse_than_its_noise_is_told(
    seconds: tuple[float, ...], error: float, told: str
) -> None:
    warning = fit_warning([(1, 50.0, s) for s in seconds], error)
    assert (told in warning) if told else not warning


# ---- deletion ----------------------------------------------------------------------------------


def known(source: str) -> Stage:
    stage = Stage()
    stage.send(ev.ProfileStored(profile=learnt((1, 10.0, 4.0)), source=source))
    return stage


def test_a_dropped_profile_is_gone_and_jobs_are_planned_anew() -> None:
    stage = known("progress")
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    entry = stage.core.state.profile_of(stage.job("a"))
    assert entry is not None
    stage.need_plan()
    stage.plan()
    stage.send(ev.ProfileDropped(app="app"))
    assert stage.core.state.profile_of(stage.job("a")) is None
    assert stage.core.state.solving


def test_a_certificate_goes_only_when_asked_for() -> None:
    stage = known("measured")
    stage.send(ev.ProgramCertified(app="app", mode=ev.ResizeMode.TEAM, evidence="{}"))
    stage.send(ev.ProfileDropped(app="app"))
    assert stage.core.state.certificates
    stage.send(ev.ProfileDropped(app="app", model=False, certificate=True))
    assert not stage.core.state.certificates


@pytest.mark.parametrize("source", ["measured", "progress"])
def test_reset_is_for_what_was_learnt(source: str) -> None:
    from wattfold.coordinator.adapters.requests.profiles import dropped
    from wattfold.v1 import coordinator_pb2 as pb

    state = known(source).core.state
    assert isinstance(state.profiles["app/cores"], StoredProfile)
    request = pb.DropProfileRequest(app="app", learnt_only=True)
    if source == "measured":
        with pytest.raises(ValueError, match="was measured, not learnt"):
            dropped(state, request)
    else:
        assert list(dropped(state, request).models) == ["cores"]
    with pytest.raises(LookupError, match="there is no profile of 'other'"):
        dropped(state, pb.DropProfileRequest(app="other"))


def test_the_command_has_both_and_still_measures() -> None:
    command = Command("unix:/nonexistent/wattfold.sock")
    told = command("profile", "--help").output
    assert "delete" in told
    assert "--repeat" in told
    # Each command gets as far as the missing coordinator.
    assert command("profile", "delete", "app").exit_code == 3
    assert command("profile", "reset", "app").exit_code == 3
    assert command("profile", "--", "true").exit_code == 3
    assert "no such program" in command("profile", "--", "./delete").stderr
