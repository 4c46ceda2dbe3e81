"""Files of training jobs and of epoch times: accepted content and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime
from wattfold.simulator.engine.machines.machine_file import read_machine
from wattfold.simulator.workloads.training_files import (
    TrainingFileError,
    TrainingJob,
    read_epoch_times,
    read_training_jobs,
)

JOBS = "job_id,submit_s,app,epochs"
TIMES = "app,gpu_model,gpus,epoch_s"


def file(folder: Path, *lines: str) -> Path:
    path = folder / "file.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_job_says_what_it_says_and_the_rest_is_usual(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        f"{JOBS},due_s,weight,gpus_max,gpu_model,snapshot_epochs",
        "7,10.5,net,60,3600,2.5,2,V100,5",
        "8,12,lstm,1,,,,,",
    )
    first, second = read_training_jobs(path)
    assert first == TrainingJob(
        job_id=7,
        submit_s=10.5,
        app="net",
        epochs=60,
        due_s=3600,
        weight=2.5,
        gpus_max=2,
        gpu_model="V100",
        snapshot_epochs=5,
    )
    assert second == TrainingJob(job_id=8, submit_s=12, app="lstm", epochs=1)


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ((f"{JOBS},due_s", "1,100,net,5,99"), 2, "job 1 is due at 99 s, before it is submitted"),
        ((JOBS, "1,0,net,5", "1,0,net,5"), 3, "job 1 is listed twice"),
        ((JOBS, "1,0,net,0"), 2, "epochs must be a whole number of at least 1, got '0'"),
        ((JOBS, "1,soon,net,5"), 2, "submit_s must be a number of at least 0, got 'soon'"),
        ((JOBS, "1,0,,5"), 2, "app is empty"),
        ((JOBS, "1,0,net,5,6"), 2, "more fields than columns"),
        ((f"{JOBS},gpus_min,gpus_max", "1,0,net,5,4,2"), 2, "requests 4 to 2 GPUs"),
        (("job_id,app",), 1, "expected job_id, submit_s, app, epochs and any of due_s"),
        ((f"{JOBS},colour",), 1, "expected job_id"),
        ((JOBS,), 0, "has no job"),
    ],
)
def test_what_is_wrong_with_jobs_is_told_with_the_line(
    tmp_path: Path, lines: tuple[str, ...], line: int, message: str
) -> None:
    with pytest.raises(TrainingFileError, match=message) as error:
        read_training_jobs(file(tmp_path, *lines))
    assert (f"file.csv:{line}: " in str(error.value)) == bool(line)


def test_epoch_times_are_by_application_with_a_curve_where_one_is_known(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        f"{TIMES},static_w,full_w,knee,beta",
        "net,V100,1,10.5,39,237,0.84,0.26",
        "net,V100,2,6,,,,",
        "lstm,T4,1,20,,,,",
    )
    curve = GpuCurve(static_w=39, full_w=237, knee=0.84, beta=0.26)
    assert read_epoch_times(path) == {
        "net": (
            EpochTime(gpu_model="V100", gpus=1, seconds=10.5, curve=curve),
            EpochTime(gpu_model="V100", gpus=2, seconds=6),
        ),
        "lstm": (EpochTime(gpu_model="T4", gpus=1, seconds=20),),
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((TIMES, "net,V100,1,10", "net,V100,1,11"), "1 x V100 is listed twice for net"),
        ((TIMES, "net,V100,0,10"), "gpus must be a whole number of at least 1"),
        ((TIMES, "net,V100,1,0"), "epoch_s must be a number of at least"),
        ((f"{TIMES},static_w", "net,V100,1,10,39"), "must be given together; got static_w"),
        (
            (f"{TIMES},static_w,full_w,knee,beta", "net,V100,1,10,39,30,1,0"),
            "static power 39.0 W must be below 30.0 W",
        ),
    ],
)
def test_what_is_wrong_with_epoch_times_is_told(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(TrainingFileError, match=message):
        read_epoch_times(file(tmp_path, *lines))


CLASS = '[[class]]\nname = "v"\nnodes = 2\ncores = 8\ngpus = 2\n'


def test_a_class_may_say_what_its_gpus_are_and_draw(tmp_path: Path) -> None:
    text = f'{CLASS}gpu_model = "V100"\ngpu_min_w = 100\ngpu_max_w = 250\ngpu_idle_w = 36\n'
    (only,) = read_machine(file(tmp_path, text)).classes
    assert only.gpu_model == "V100"
    assert (only.gpu_uw_min, only.gpu_uw_max) == (100 * 10**6, 250 * 10**6)
    assert only.gpu_idle_uw == 36 * 10**6
    assert only.gpus_uw == 2 * only.gpu_uw_min


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("gpu_model = 7", "gpu_model must be a name"),
        ("gpu_idle_w = 30", "gpu_max_w is missing"),
        ("gpu_min_w = 300\ngpu_max_w = 250", "limits of a GPU need 0 < min <= max"),
        ("gpu_max_w = 250\ngpu_idle_w = 260", "idle 260 W"),
    ],
)
def test_what_is_wrong_with_gpus_is_told_with_the_class(
    tmp_path: Path, more: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_machine(file(tmp_path, CLASS, more))
