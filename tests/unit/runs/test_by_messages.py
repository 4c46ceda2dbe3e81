"""Cases by messages: the service's core on small workloads, with the interface of a pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.runs.sample_runs import MACHINE, S, case, contents

from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.messages.record import ClusterRecord
from wattfold.simulator.runs.by_messages import run_by_messages
from wattfold.simulator.runs.case import MessageLevel, PolicyChoice, SimulationCase
from wattfold.simulator.runs.execute import execute

LEVEL = MessageLevel(cores_per_node=4)
DROP = BudgetSchedule(
    steps=(
        BudgetStep(at_ns=0, budget_uw=MACHINE.full_uw),
        BudgetStep(at_ns=600 * S, budget_uw=MACHINE.full_uw * 9 // 10, deadline_ns=5 * S),
    )
)


def by_messages(policy: str, **changed: object) -> SimulationCase:
    return case(policy, jobs=12, **{"messages": LEVEL, **changed})


def record_of(one: SimulationCase) -> ClusterRecord:
    record = execute(one).record
    assert isinstance(record, ClusterRecord)
    return record


@pytest.mark.parametrize("policy", ["easy", "fcfs", "parm-wse", "parm-nose", "parm-nomm"])
def test_every_policy_of_the_service_runs_and_keeps_a_budget_that_falls(policy: str):
    record = record_of(by_messages(policy, budget=DROP))
    assert (record.columns.end_ns > 0).all()
    assert record.over_budget_ns == 0
    assert record.peak_bound_uw <= MACHINE.full_uw
    [response] = record.responses
    assert 0 <= response.drawn_kept_ns <= response.bound_kept_ns <= 5 * S


def test_without_delays_of_note_it_decides_as_a_pool_does():
    """Jobs start when the pool starts them, apart from milliseconds of messages."""
    quick = replace(LEVEL, delay_s=1e-5, window_s=0.001)
    starts = [
        execute(by_messages("easy", messages=level)).record.columns.start_ns
        for level in (quick, None)
    ]
    assert np.abs(starts[0] - starts[1]).max() < S


def test_one_seed_gives_one_folder(tmp_path: Path):
    lossy = replace(LEVEL, lose=0.05, double=0.05)
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        execute(by_messages("parm-nose", messages=lossy, folder=folder))
    assert contents(folders[0]) == contents(folders[1])
    assert set(contents(folders[0])) == {"jobs.csv", "series.csv", "metrics.json"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"policy": PolicyChoice(name="easy", cap_uw=40_000_000)}, "for the pool"),
        ({"policy": PolicyChoice(name="parm-wse", caps_uw=(40_000_000,))}, "for the pool"),
        (
            {
                "budget": replace(
                    DROP, steps=(*DROP.steps[:1], replace(DROP.steps[1], deadline_ns=S))
                )
            },
            "agents need at least 2 s",
        ),
        ({"budget": BudgetSchedule.constant(MACHINE.full_uw // 2)}, "charged at their floors"),
    ],
)
def test_what_this_level_has_not_is_refused(changed: dict[str, object], words: str):
    with pytest.raises(ValueError, match=words):
        execute(replace(by_messages("easy"), **changed))


def test_jobs_on_whole_nodes_are_resized_by_restarts_and_stand_still_for_it():
    choice = PolicyChoice(name="parm-wse", settings=(("resize_interval_s", 60.0),))
    one = replace(by_messages("parm-wse"), policy=choice)
    table = record_of(one).jobs
    table = replace(table, size_min=np.maximum(table.size_max // 4, 1))
    still = run_by_messages(one, table, LEVEL)
    assert not still.columns.resizes.any()
    assert not still.columns.stalled_ns.any()
    level = replace(LEVEL, restarts=True, save_s=2.0, start_s=3.0)
    moved = run_by_messages(one, table, level)
    resized = moved.columns.resizes > 0
    assert resized.any()
    assert (moved.columns.stalled_ns[resized] >= 5 * S).all()
    assert not moved.columns.stalled_ns[~resized].any()
    assert (moved.columns.end_ns > 0).all()
    assert moved.over_budget_ns == 0
