"""Run times predicted from similar runs: recorded history, predictions, and extensions."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.models import forecast
from wattfold.coordinator.models.forecast import (
    LAST_TWO,
    METHODS,
    NOTHING_KNOWN,
    REGRESSION,
    USER,
    Asked,
    RunHistory,
    SimilarRuns,
    grown_ns,
    predicted_ns,
)

S = 1_000_000_000
MIN = 60 * S
H = 3600 * S


def asked(user: str = "ann", app: str = "a", time_ns: int = 10 * H, size: int = 4) -> Asked:
    return Asked(user=user, app=app, size=size, time_ns=time_ns)


def after(*runs: tuple[Asked, int]) -> RunHistory:
    history = RunHistory()
    for one, run_ns in runs:
        history.learn(one, history.known(one), run_ns)
    return history


def test_last_two_is_the_mean_of_the_last_two_runs_of_user_and_application() -> None:
    history = after((asked(), 9 * H), (asked(), 100 * S), (asked(), 300 * S))
    assert predicted_ns(LAST_TWO, history.known(asked()), 10 * H) == 200 * S


def test_a_new_application_goes_by_all_runs_of_its_user_and_a_new_user_by_the_request() -> None:
    history = after((asked(app="a"), 100 * S), (asked(app="b"), 300 * S))
    known = history.known(asked(app="c"))
    assert (predicted_ns(LAST_TWO, known, 10 * H), known.alike) == (200 * S, False)
    assert predicted_ns(LAST_TWO, history.known(asked(user="bob")), 10 * H) == 10 * H


@given(
    st.sampled_from(METHODS),
    st.lists(st.tuples(st.integers(0, 20 * H), st.integers(1, 20 * H)), max_size=8),
    st.integers(1, 20 * H),
)
def test_no_prediction_is_beyond_the_request(
    method: str, runs: list[tuple[int, int]], time_ns: int
) -> None:
    history = after(*((asked(time_ns=t), run_ns) for run_ns, t in runs))
    assert 0 < predicted_ns(method, history.known(asked(time_ns=time_ns)), time_ns) <= time_ns


def test_without_a_request_predictions_are_not_bounded() -> None:
    history = after((asked(time_ns=0), 2 * H), (asked(time_ns=0), 4 * H))
    known = history.known(asked(time_ns=0))
    assert predicted_ns(LAST_TWO, known, 0) == 3 * H
    assert predicted_ns(REGRESSION, known, 0) > H
    assert predicted_ns(USER, known, 0) == 0
    assert predicted_ns(REGRESSION, NOTHING_KNOWN, 0) == 0


def test_a_run_beyond_its_prediction_is_given_more_step_by_step_up_to_the_request() -> None:
    assert grown_ns(10 * MIN, 10 * MIN - 1, 2 * H) == 10 * MIN
    assert grown_ns(10 * MIN, 10 * MIN, 2 * H) == 11 * MIN
    assert grown_ns(10 * MIN, 11 * MIN, 2 * H) == 16 * MIN
    assert grown_ns(10 * MIN, 16 * MIN, 2 * H) == 2 * H, "31 min are more than twice as much"
    assert grown_ns(20 * MIN, 37 * MIN, 2 * H) == 2 * H
    assert grown_ns(60 * MIN, 70 * MIN, 4 * H) == 81 * MIN
    assert grown_ns(10 * MIN, 16 * MIN, 0) == 31 * MIN, "without a request"
    assert grown_ns(10 * MIN, 3 * H, 2 * H) == 2 * H
    assert grown_ns(0, 5 * MIN, 2 * H) == 2 * H, "without a prediction the request counts"


@given(st.integers(1, 5 * H), st.integers(0, 400 * H), st.one_of(st.just(0), st.integers(1, 9 * H)))
def test_what_is_planned_is_beyond_what_was_spent_or_the_request(
    predicted: int, spent: int, time_ns: int
) -> None:
    planned = grown_ns(predicted, spent, time_ns)
    assert planned > spent or planned == time_ns
    assert not time_ns or planned <= time_ns


def test_steps_never_shrink() -> None:
    assert all(earlier < later for earlier, later in pairwise(forecast.STEPS_NS))


def trained(factor: float, count: int = 400) -> RunHistory:
    """History of users who request ``factor`` times the run time of their jobs; all jobs differ."""
    rng, history = random.Random(1), RunHistory()
    for number in range(count):
        run_ns = round(rng.uniform(100, 20_000) * S)
        one = asked(f"u{number % 20}", time_ns=round(run_ns * factor))
        history.learn(one, history.known(one), run_ns)
    return history


def test_the_regression_learns_how_much_too_much_is_asked_for() -> None:
    few, many = (trained(8.0, count).known(asked("new", time_ns=8 * H)) for count in (100, 5000))
    assert H < many.regression_ns < few.regression_ns < 8 * H


def test_too_long_weighs_more_than_too_short() -> None:
    """For runs with one of two random times, it predicts closer to the shorter time."""
    rng, history = random.Random(2), RunHistory()
    for _ in range(3000):
        one = asked(time_ns=10 * H)
        history.learn(one, history.known(one), rng.choice([100, 10_000]) * S)
    predicted = predicted_ns(REGRESSION, history.known(asked()), 10 * H)
    assert 100 * S < predicted < 1000 * S, "their geometric mean is 1000 s"


def test_the_same_runs_leave_the_same_history() -> None:
    assert trained(5.0) == trained(5.0)
    assert trained(5.0) != trained(6.0)


def test_what_is_learnt_goes_by_what_was_known_at_submission() -> None:
    """Two simultaneous jobs: the end of the second does not use the run time of the first."""
    history, one = RunHistory(), asked()
    before = history.known(one)
    history.learn(one, before, 100 * S)
    twin = RunHistory()
    twin.learn(one, twin.known(one), 100 * S)
    twin.learn(one, twin.known(one), 100 * S)
    history.learn(one, before, 100 * S)
    assert history.regression != twin.regression
    assert history.apps == twin.apps


def test_users_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "ENTRIES_MAX", 3)
    history = after(*((asked(user), 100 * S) for user in ("a", "b", "c", "a", "d")))
    assert list(history.users) == ["c", "a", "d"]
    assert history.known(asked("b", app="z")) == SimilarRuns(
        regression_ns=history.known(asked("b", app="z")).regression_ns
    )
