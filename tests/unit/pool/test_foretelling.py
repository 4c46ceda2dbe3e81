"""Pool schedulers that plan with predictions: starts, learning, and time limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.pool.pools import MACHINE, Row, S, table
from unit.runs.sample_runs import case, contents

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import Turn, simulate
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.predicting_scheduler import PredictingScheduler
from wattfold.simulator.engine.schedulers.uniform_scheduler import UniformScheduler
from wattfold.simulator.runs.execute import execute

ENOUGH = BudgetSchedule.constant(MACHINE.full_uw)
PAST: tuple[Row, ...] = ((0, 1, 100), (200, 1, 100))
"""Two runs of the user that took 100 s."""


def jobs(*rows: Row, estimates: list[float]) -> JobTable:
    """Jobs after `PAST`, all of one user and application."""
    return table(*PAST, *rows, estimates=[100.0, 100.0, *estimates])


def starts_s(of: JobTable, method: str = "last-two", inner: EasyScheduler | None = None):
    scheduler = inner or EasyScheduler()
    if method != "user":
        scheduler = PredictingScheduler(of, scheduler, method)
    record = simulate(of, MACHINE, scheduler, ENOUGH)
    return (record.columns.start_ns[2:] // S).tolist()


def test_a_job_fills_a_hole_that_its_request_would_not_fit() -> None:
    """8 nodes for 400 s, then all 10, then 2 nodes: request of an hour, prediction of 100 s."""
    of = jobs((1000, 8, 400), (1001, 10, 50), (1002, 2, 100), estimates=[400, 50, 3600])
    assert starts_s(of, "user") == [1000, 1400, 1450]
    # By prediction the first job ends after 100 s; room appears only after two extensions.
    assert starts_s(of, "last-two") == [1000, 1400, 1160]


def test_a_run_beyond_its_prediction_keeps_its_nodes_and_is_given_more_in_steps() -> None:
    """The first job is extended by a minute at 1100 s, and to its full request at 1160 s."""
    of = jobs((1000, 8, 1000), (1001, 10, 50), (1103, 2, 90), estimates=[2000, 50, 90])
    starts = starts_s(of)
    assert starts == [1000, 2000, 1160], "at its second step room for 90 s is seen"
    assert starts_s(of, "user") == [1000, 2000, 1103]


def test_no_job_is_ended_by_its_prediction() -> None:
    of = jobs((1000, 8, 5000), estimates=[9000])
    record = simulate(of, MACHINE, PredictingScheduler(of, EasyScheduler(), "last-two"), ENOUGH)
    assert record.columns.end_ns[2] == 6000 * S


def test_what_users_ask_for_stays_the_limit() -> None:
    of = replace(
        jobs((1000, 8, 5000), estimates=[3000]),
        limit_ns=np.array([100 * S, 100 * S, 3000 * S]),
    )
    record = simulate(of, MACHINE, PredictingScheduler(of, EasyScheduler(), "last-two"), ENOUGH)
    assert record.columns.end_ns[2] == 4000 * S


def test_nothing_is_learnt_of_a_job_that_comes_back() -> None:
    of = jobs((1000, 8, 400), estimates=[3600])
    scheduler = PredictingScheduler(of, EasyScheduler(), "last-two")

    class Known:
        def foretell(self, job: int, estimate_ns: int) -> None: ...

        def ask(self, job: int):
            from wattfold.coordinator.policies.port import SizeRequest

            return SizeRequest(1, 1, 1.0, 0)

        def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
            return 100 * S

        def held(self, job: int):
            return None

    scheduler.attach(Known())  # type: ignore[arg-type]
    scheduler.site(MACHINE.site(10**12))
    scheduler.submit(0, 0)
    scheduler.decide(0)
    scheduler.end(0, 50 * S)
    scheduler.submit(0, 50 * S)
    scheduler.decide(50 * S)
    assert scheduler._history.users == {}
    scheduler.end(0, 150 * S)
    scheduler.submit(1, 150 * S)
    assert scheduler._history.users["0"].last_ns == 100 * S


@pytest.mark.parametrize("make", [lambda: EasyScheduler(method="conservative"), None])
def test_conservative_and_uniform_plan_with_predictions(make) -> None:  # type: ignore[no-untyped-def]
    of = jobs((1000, 8, 400), (1001, 10, 50), (1002, 2, 100), estimates=[400, 50, 3600])
    inner = make() if make else UniformScheduler(MACHINE)
    assert starts_s(of, "last-two", inner) == [1000, 1400, 1160]


@pytest.mark.parametrize(
    ("policy", "method"),
    [("easy", "last-two"), ("easy-uniform", "regression"), ("slowdown-driven", "regression")],
)
def test_a_stopped_run_ends_with_the_bytes_of_one_that_was_not(
    policy: str, method: str, tmp_path: Path
) -> None:
    whole = replace(case(policy, tmp_path / "whole", jobs=1500), predict=method)
    halves = replace(whole, folder=tmp_path / "halves")
    execute(whole)
    left = [1]

    def on_turn(_turn: Turn) -> bool:
        left[0] -= 1
        return left[0] > 0

    assert execute(halves, on_turn=on_turn).record is None
    assert execute(halves, resume=True).record is not None
    assert contents(tmp_path / "whole") == contents(tmp_path / "halves")


def test_a_run_by_users_words_is_the_run_it_was(tmp_path: Path) -> None:
    """Files of earlier runs stay valid, because the identity of a run omits unused settings."""
    assert "predict" not in case("easy", tmp_path).identity()
    assert replace(case("easy", tmp_path), predict="regression").identity()["predict"]


def test_parm_on_counted_nodes_has_no_use_for_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plans with profiles and not with the times of users"):
        execute(replace(case("parm-wse", tmp_path), predict="last-two"))


def test_a_predictor_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of last-two, regression"):
        PredictingScheduler(table((0, 1, 1)), EasyScheduler(), "user")
