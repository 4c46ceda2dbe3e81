"""Reasons why a job waits and why it runs as it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.policies.snapshots import held, job, node, snapshot, with_dram

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.reasons.explain import explain
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven

A = JobId("a")


def test_a_waiting_job() -> None:
    busy = job("b", current=held("b", "n0:0-2", total_s=80), started_s=0, done=0.25)
    seen = snapshot([node("n0")], [busy, job("a", 2, 4, time_s=60)], budget_w=80, now_s=5)
    out = explain(seen, A, Parm(), "no room")
    assert out.summary == "Waits: no room."
    assert out.lines[0] == "It needs 2 cores, 1 free."
    assert out.lines[1] == "Held by job b, expected to end within 60 s."
    assert out.lines[2] == "Policy parm-wse; the job has waited 5 s."
    # 80 W less 26 W idle less 3/4 of 29 W.
    assert out.lines[3] == (
        "Free now: 1 core (at most 1 on one node), 32.2 W above idle of a budget of 80.0 W."
    )
    assert "Its cheapest option is 2 cores at 16." in out.lines[4]
    assert "Run time from: default profile with the user's estimate of 60 s." in out.lines
    assert out.lines[-1] == "Job b is expected to end in about 60 s."


def test_a_job_nobody_has_planned_yet() -> None:
    out = explain(snapshot([node("n0")], [job("a")]), A, FifoEasy(), "")
    assert out.summary == "Waits: no plan has been made yet."
    assert not any("option" in line for line in out.lines)


def test_a_running_job() -> None:
    view = job("a", current=held("a", "n0:0-1", cap_w=44.75), started_s=0, done=0.5, resized_s=90)
    out = explain(snapshot([node("n0")], [view], budget_w=100, now_s=100), A, Parm(), "")
    assert out.summary == "Runs on 2 cores at 44.8 W per node."
    assert out.lines[0] == "Cores: n0:0-1."
    assert "50% done" in out.lines[1]
    assert any(
        "It keeps its size for 490 s more; it was resized 10 s ago." in line for line in out.lines
    )
    assert "Its size is fixed at 2 cores now." in out.lines


def test_the_neighbours_of_a_running_jobs_choice() -> None:
    view = job("a", current=held("a", "n0:0-1", cap_w=44.75), started_s=0)
    out = explain(snapshot([node("n0")], [view], now_s=1), A, Parm(), "")
    neighbours = [line for line in out.lines if line.startswith("With ")]
    assert len(neighbours) == 3
    assert any("With 3 cores at 44.8 W: +" in line for line in neighbours)


def test_no_nodes() -> None:
    assert explain(snapshot([], [job("a")]), A, Parm(), "").summary == "No node is reachable."
    away = job("a", current=held("a", "n0:0"), movable=False)
    out = explain(snapshot([], [away]), A, Parm(), "")
    assert out.summary == "Its nodes are unreachable."


def test_another_job() -> None:
    with pytest.raises(KeyError):
        explain(snapshot([node("n0")], []), A, Parm(), "")


def test_what_a_program_asks_for() -> None:
    current = held("a", "n0:0-1")
    view = job("a", 2, 4, current=current, started_s=0, wanted=3, kind=JobKind.EVOLVING)
    out = explain(snapshot([node("n0")], [view], now_s=1), A, Parm(), "")
    assert "Its program requests 3 cores; it gets at most 3 cores (range 2-4)." in out.lines
    view = job("a", 2, 4, current=current, started_s=0, wanted=3)
    out = explain(snapshot([node("n0")], [view], now_s=1), A, Parm(), "")
    assert any("only requests of evolving jobs count" in line for line in out.lines)


def test_levels_of_a_running_job_and_what_others_would_do() -> None:
    current = replace(held("a", "n0:0-1", cap_w=44.75), levels=Levels(dram_uw=11_375_000))
    (n0,) = [with_dram(node("n0"), (4, 9), (4, 9))]
    view = job("a", current=current, started_s=0)
    policy = Parm(ParmSettings(dram_levels=3, dram_rest_w=8.0, dram_work_w=10.0))
    out = explain(snapshot([n0], [view], now_s=1), A, policy, "")
    assert out.summary == "Runs on 2 cores at 44.8 W per node, 11.4 W for its DRAM."
    neighbours = [line for line in out.lines if line.startswith("With ")]
    assert any("With 2 cores at 44.8 W, DRAM at 14.6 W: +" in line for line in neighbours)
    on_gpus = replace(current, levels=Levels(gpu_uw=150_000_000))
    seen = snapshot([n0], [replace(view, current=on_gpus)], now_s=1)
    summary = explain(seen, A, FifoEasy(), "").summary
    assert summary == "Runs on 2 cores at 44.8 W per node, 150.0 W for each GPU."


def test_what_a_job_loses_on_fewer_cores() -> None:
    """The explanation states this loss only under policies that use it."""
    view = job("a", current=held("a", "n0:0-3"), started_s=0)
    seen = snapshot([node("n0")], [view], now_s=1)
    unknown = "Its speed on fewer cores is unknown and assumed to be proportional."
    assert unknown in explain(seen, A, SlowdownDriven(), "").lines
    measured = replace(seen, jobs=(replace(view, serial_ppm=750_000),))
    told = "On half of its cores it runs at 80% of its speed (measured)."
    assert told in explain(measured, A, SlowdownDriven(), "").lines
    assert told not in explain(measured, A, FifoEasy(), "").lines
