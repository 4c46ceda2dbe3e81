"""Rules of policies, results and proofs that lacked a test. Each rule was broken once."""

from __future__ import annotations

import socket
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
from unit.policies.snapshots import S, W, caps_w, faults, job, node, snapshot
from unit.policies.training_jobs import gpu_node, training
from unit.results.records import JOBS, record, small

from wattfold.contract.step_protocol import MAC_BYTES, NONCE_BYTES, Frame, FrameKind
from wattfold.coordinator.cli.rsh import rsh_session
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.equipartition.policy import Equipartition
from wattfold.coordinator.policies.slowdown_driven.choice import (
    Guest,
    MateLimits,
    NodeLender,
    select_on_node,
)
from wattfold.simulator.results.metrics import metrics_of


def test_what_a_job_draws_at_its_own_level_is_not_shared_again() -> None:
    nodes = [node(f"n{i}", 4, base_w=20, floor_w=20, max_w=60) for i in range(2)]
    own = job("own", 1, 1, unit=SizeUnit.NODES, cap_uw=40 * W)
    other = job("other", 1, 1, submitted_s=1, unit=SizeUnit.NODES)
    fixed_w = sum(n.fixed_uw for n in nodes) / W
    seen = snapshot(nodes, [own, other], budget_w=fixed_w + 50, now_s=2)
    plan = Equipartition().propose(seen, seen.now_ns, 1.0)
    assert faults(plan, seen) == []
    assert caps_w(plan) == {"own": 40.0, "other": 50.0}


def test_without_a_due_date_who_came_earlier_is_due_earlier() -> None:
    """Due at three times the fastest time after submission: only one of them is late."""
    now_s = 3000.0
    old = training("old", {("V100", 1): 1000.0}, submitted_s=now_s - 2900, high=1)
    new = training("new", {("V100", 1): 500.0}, submitted_s=now_s, high=1)
    entry = registry.find("andreas")
    assert entry is not None
    seen = snapshot([gpu_node("v0", gpus=1)], [old, new], now_s=now_s)
    plan = entry.service({}).propose(seen, seen.now_ns, 1.0)
    assert [one.job_id for one in plan.assignments] == ["old"]


@pytest.mark.parametrize("most_cores_first", [True, False])
def test_of_equal_impact_the_one_with_most_cores_is_chosen(most_cores_first: bool) -> None:
    """One core for 200 s delays a mate as much as two cores for 100 s."""
    numbers = (7, 8) if most_cores_first else (8, 7)
    lenders = [
        NodeLender(job=number, cores=4, waited=0, asked=1000, ends=5000, lends=lends)
        for number, lends in zip(numbers, (2, 1), strict=True)
    ]
    guest = Guest(nodes=1, asked=100, cores=2, least=1)
    pick = select_on_node(guest, lenders, 0, 0, MateLimits(mates=1))
    assert pick is not None
    assert (pick.cores, pick.gives) == (2, ((numbers[0], 2),))


def test_a_stretch_without_a_running_job_does_not_count_for_nodes_busy() -> None:
    states = [
        (100, 0, 1, 2, 300.0, 250.0, 464.0),
        (200, 0, 0, 0, 100.0, 90.0, 464.0),
        (500, 0, 1, 4, 464.0, 400.0, 464.0),
        (600, 0, 0, 0, 100.0, 90.0, 464.0),
    ]
    assert metrics_of(record(JOBS, states)).nodes_busy_mean == 3


@pytest.mark.parametrize(("late_s", "kept"), [(-3600, 1.0), (60, 1.0), (61, 0.0)])
def test_a_start_that_comes_early_is_kept(late_s: int, kept: float) -> None:
    run = small()
    told_ns = run.columns.start_ns - np.int64(late_s * S)
    assert metrics_of(replace(run, told_ns=told_ns + 0)).start_kept_share == kept


def test_a_host_that_cannot_prove_itself_is_refused() -> None:
    """The shell sends its request, input and variables only to a host with the job's key."""
    here, there = socket.socketpair()

    def host() -> None:
        there.settimeout(240)
        there.sendall(Frame(FrameKind.CHALLENGE, bytes(NONCE_BYTES)).pack())
        there.sendall(Frame(FrameKind.WELCOME, bytes(MAC_BYTES)).pack())

    serving = Thread(target=host)
    serving.start()
    with here, there, pytest.raises(rsh_session.StepProtocolError, match="does not have the key"):
        rsh_session._prove(here, "n0", "1", b"key")
    serving.join()
