"""`profile epochs`: its runs, the stored result, and its display."""

from __future__ import annotations

import json

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, V100_RESNET, FakeCoordinator, W, node

from wattfold.v1 import coordinator_pb2 as pb

LIMITS = (125, 150, 175, 200)


@pytest.fixture(autouse=True)
def gpus(fake: FakeCoordinator) -> None:
    fake.finish_at_once = True
    zones = [
        pb.NodeZone(name=f"gpu-{index}", cap_uw_min=100 * W, cap_uw_max=250 * W) for index in "01"
    ]
    big = {"gpus": ["0", "1"], "gpu_model": "V100", "zones": zones}
    down = pb.NODE_STATE_DOWN
    fake.nodes = [
        node("n1", **big),
        node("n2", **big),
        node("n3", gpus=["0"], gpu_model="T4"),
        node("n4"),
        node("n5", gpus=["0"], gpu_model="A100", state=down),
    ]


def asked(fake: FakeCoordinator) -> list[tuple[str, int, int]]:
    specs = [one.spec for one in fake.submissions]
    return [(spec.among[0], spec.size_min, spec.gpu_cap_uw // W) for spec in specs]


def test_one_node_of_each_model_is_measured_on_all_numbers_of_gpus(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    result = wattfold("profile", "epochs", "--app", "net", "--", "true")
    assert result.exit_code == 0, result.stderr
    assert asked(fake) == [("n3", 1, 0), ("n1", 1, 0), ("n1", 2, 0)]
    spec = fake.submissions[-1].spec
    assert (spec.unit, spec.gpus, spec.spread) == (
        pb.SIZE_UNIT_UNITS,
        1,
        pb.UNIT_SPREAD_TOGETHER,
    )
    assert (spec.exclusive, spec.epochs, spec.kind) == (True, 4, pb.JOB_KIND_RIGID)
    times = [(t.gpu_model, t.gpus, t.seconds, t.count) for t in fake.profiles["net"].epoch_times]
    assert times == [("T4", 1, 60, 3), ("V100", 1, 60, 3), ("V100", 2, 30, 3)]
    assert "V100    2  30.000" in result.stdout
    assert "3/3 2 x V100 on n1: 30.000 s per epoch" in result.stderr
    shown = wattfold("profiles", "net").stdout
    assert "V100    2  30.000" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_limits_are_tried_on_the_least_number_and_fit_a_curve(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    caps = ",".join(map(str, (*LIMITS, 300)))
    result = wattfold(
        *("profile", "epochs", "--json", "--node", "n2", "--gpus", "1,2", "--gpu-caps", caps),
        *("--app", "net", "--epochs", "2", "--reservation", "aside", "true"),
    )
    assert result.exit_code == 0, result.stderr
    assert asked(fake) == [("n2", 1, 0), ("n2", 2, 0), *(("n2", 1, w) for w in LIMITS[::-1])]
    assert {one.spec.reservation for one in fake.submissions} == {"aside"}
    (curve,) = json.loads(result.stdout)["profile"]["gpu_curves"]
    assert curve["rms_error"] < 0.001
    (stored,) = fake.profiles["net"].gpu_curves
    assert stored.beta == pytest.approx(V100_RESNET.beta, abs=0.02)
    assert stored.full_w == pytest.approx(V100_RESNET.full_w, rel=0.02)
    assert "V100" in wattfold("profiles", "net").stdout


def test_times_that_no_limit_explains_make_no_curve(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    fake.upside_down = True
    words = ("--node", "n1", "--gpus", "1", "--gpu-caps", "125,200", "--app", "net")
    result = wattfold("profile", "epochs", *words, "--", "true")
    assert result.exit_code == 0
    assert "no curve of limits for V100: the best fit has an error of" in result.stderr
    assert not fake.profiles["net"].gpu_curves
    assert len(fake.profiles["net"].epoch_times) == 1


def test_nodes_of_one_model_are_one(wattfold: Command, fake: FakeCoordinator) -> None:
    words = ("--node", "n1,n2", "--gpus", "2", "--app", "net")
    assert wattfold("profile", "epochs", *words, "--", "true").exit_code == 0
    assert asked(fake) == [("n1", 2, 0), ("n2", 2, 0)]
    (time,) = fake.profiles["net"].epoch_times
    assert (time.seconds, time.count) == (30, 6)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--node", "n4"), "n4' is not up or has no GPU"),
        (("--node", "n5"), "n5' is not up"),
        (("--gpus", "3"), "3 GPUs cannot be measured: n3 has 1"),
        (("--gpu-caps", "100"), "1 limit and the maximum are too few for a curve"),
    ],
)
def test_what_cannot_be_measured_is_said_before_the_first_run(
    wattfold: Command, fake: FakeCoordinator, words: tuple[str, ...], why: str
) -> None:
    result = wattfold("profile", "epochs", *words, "--", "true")
    assert result.exit_code != 0
    assert why in " ".join(result.stderr.split())
    assert not fake.submissions


def test_a_program_that_reports_no_epochs_is_told_of(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    fake.epochs_are_told = False
    result = wattfold("profile", "epochs", "--node", "n3", "--", "true")
    assert result.exit_code == 1
    assert "the program must report its epochs" in " ".join(result.stderr.split())
    assert not fake.profiles


def test_how_far_a_training_is_is_shown(wattfold: Command, fake: FakeCoordinator) -> None:
    spec = pb.JobSpec(epochs=90, argv=["true"])
    running = pb.JOB_STATE_RUNNING
    job = pb.Job(job_id="a", state=running, spec=spec, submitted_at_s=NOW_S, epochs_saved=12)
    job.epoch_s = 31.25
    fake.add(job)
    assert "12 of 90, last epoch 31.2 s" in wattfold("show", "a").stdout
