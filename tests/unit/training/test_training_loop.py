"""The loop of a training job in this process. System tests cover the ends of whole processes."""

from __future__ import annotations

import io
import multiprocessing as mp
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wattfold.training import Epoch, SnapshotError, Training
from wattfold.training.stopping import StopFlag

fork = mp.get_context("fork")
STEPS = 5


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WATTFOLD_SNAPSHOT_DIR", "WATTFOLD_EPOCHS", "WATTFOLD_ATTEMPT", "WATTFOLD_GPUS"):
        monkeypatch.delenv(name, raising=False)


def draws(training: Training, stop_at: tuple[int, int] = (-1, -1)) -> list[float]:
    """Train on random numbers and send SIGTERM to this process at a given epoch and step."""
    drawn: list[float] = []
    training.keep(drawn=drawn)
    for epoch in training:
        order = random.sample(range(STEPS), STEPS)
        for at, step in enumerate(training.steps(order)):
            value = step + random.random()
            drawn.append(value)
            training.note(value)
            if (epoch, at) == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
    return drawn


def test_an_epoch_goes_on_in_its_middle_and_its_order_is_the_same(tmp_path: Path) -> None:
    random.seed(7)
    wanted_training = Training(4, tmp_path / "alone")
    wanted = draws(wanted_training)
    random.seed(7)
    with pytest.raises(SystemExit) as left:
        draws(Training(4, tmp_path / "two"), stop_at=(2, 3))
    assert left.value.code == 128 + signal.SIGTERM
    random.seed(99)
    again = Training(4, tmp_path / "two")
    assert draws(again) == wanted
    assert [e.loss for e in again.history] == [e.loss for e in wanted_training.history]
    assert [e.number for e in again.history] == [1, 2, 3, 4]
    # The time of an interrupted epoch is not recorded.
    assert [e.seconds > 0 for e in again.history] == [True, True, False, True]


def test_the_report_is_of_what_is_in_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATTFOLD_SNAPSHOT_DIR", str(tmp_path))
    monkeypatch.setenv("WATTFOLD_EPOCHS", "5")
    monkeypatch.setenv("WATTFOLD_ATTEMPT", "3")
    monkeypatch.setenv("WATTFOLD_GPUS", "a,b")
    training = Training(folder="elsewhere", every=2)
    seen = []
    for _ in training:
        seen.append(len((tmp_path / "epochs").read_text().splitlines()) if training.done else 0)
        training.note(1.5)
        if training.done == 0:
            (tmp_path / "epochs").touch()
    assert seen == [0, 0, 2, 2, 4]
    lines = [dict(w.split("=") for w in x.split()) for x in (tmp_path / "epochs").open()]
    assert [line["epoch"] for line in lines] == ["1", "2", "3", "4", "5"]
    assert {(line["gpus"], line["attempt"], line["loss"]) for line in lines} == {("2", "3", "1.5")}


def test_a_torn_snapshot_is_told_and_the_one_before_used(tmp_path: Path) -> None:
    for _ in Training(3, tmp_path):
        pass
    newest = max(tmp_path.glob("snapshot.*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    out = io.StringIO()
    assert list(Training(3, tmp_path, out=out)) == [2]
    assert "incomplete" in out.getvalue()
    assert "resuming from" in out.getvalue()


def test_one_that_cannot_save_goes_on_and_says_so_when_it_has_to_leave(tmp_path: Path) -> None:
    out = io.StringIO()
    training = Training(2, tmp_path / "folder", out=out)

    def train() -> None:
        for epoch in training:
            (tmp_path / "folder").touch()  # A file is in place of the snapshot folder.
            for _ in training.steps(range(STEPS)):
                if epoch:
                    os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as left:
        train()
    assert left.value.code == 74
    assert out.getvalue().count("cannot write a snapshot") == 2
    assert "last valid snapshot is kept" in out.getvalue()


def test_what_is_kept_must_be_what_was_kept(tmp_path: Path) -> None:
    draws(Training(1, tmp_path))
    other = Training(1, tmp_path)
    other.keep(model={})
    with pytest.raises(SnapshotError, match="differ in drawn, model"):
        list(other)


def test_what_has_no_state_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="name: cannot save an object of type int"):
        Training(1, tmp_path).keep(name=3)
    with pytest.raises(ValueError, match="epochs is 0"):
        Training(folder=tmp_path)


def test_a_signal_passed_on_twice_is_one_and_a_later_one_ends_it_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def two(late: bool) -> int:
        pid = os.fork()
        if not pid:
            with StopFlag((signal.SIGTERM,)) as flag:
                os.kill(os.getpid(), signal.SIGTERM)
                flag._since_s -= 10 if late else 0
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(flag.number)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert two(late=False) == signal.SIGTERM
    assert two(late=True) == -signal.SIGTERM


def test_what_it_forks_ends_as_ever() -> None:
    with StopFlag((signal.SIGTERM, signal.SIGUSR1)) as flag:
        pid = os.fork()
        if not pid:
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
    assert not flag.number


def test_data_that_fails_because_of_the_signal_does_not_cost_the_steps(tmp_path: Path) -> None:
    def broken(told: bool) -> Iterator[int]:
        yield from range(3)
        if told:
            os.kill(os.getpid(), signal.SIGTERM)
        raise OSError("a worker was killed")

    def train(told: bool) -> None:
        training = Training(1, tmp_path)
        for _ in training:
            for _ in training.steps(broken(told)):
                training.note(1.0)

    with pytest.raises(OSError, match="a worker was killed"):
        train(told=False)
    with pytest.raises(SystemExit):
        train(told=True)
    again = Training(1, tmp_path)
    left = [list(again.steps(range(5))) for _ in again]
    assert left == [[3, 4]]


def _join(slots: Any, barrier: Any, rank: int) -> Callable[[int], int]:
    def agree(number: int) -> int:
        slots[rank] = number
        barrier.wait()
        most = max(slots)
        barrier.wait()
        return most

    return agree


def _rank(folder: Path, slots: Any, barrier: Any, rank: int, stop: int, told: Any) -> None:
    training = Training(6, folder, agree=_join(slots, barrier, rank), rank=rank)
    steps = 0
    for _ in training:
        for at in training.steps(range(STEPS)):
            steps += 1
            if (training.done, at, rank) == (3, 1, stop):
                os.kill(os.getpid(), signal.SIGTERM)
    told.put((rank, training.done, steps))


def ranks(folder: Path, count: int, stop: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Train with ``count`` ranks and stop rank ``stop``.

    Return exit codes, and epochs and steps of the ranks.
    """
    slots, barrier, told = fork.Array("i", count), fork.Barrier(count), fork.SimpleQueue()
    all_of_them = [
        fork.Process(target=_rank, args=(folder, slots, barrier, rank, stop, told))
        for rank in range(count)
    ]
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join(60)
    return [one.exitcode or 0 for one in all_of_them], sorted(iter_queue(told))


def iter_queue(queue: Any) -> Iterator[tuple[int, int, int]]:
    while not queue.empty():
        yield queue.get()


def test_all_ranks_stop_at_the_step_at_which_one_was_told_to(tmp_path: Path) -> None:
    codes, told = ranks(tmp_path, 3, stop=2)
    assert (codes, told) == ([143] * 3, [])
    # The first run saved after two steps of the fourth epoch; each rank resumes from there.
    codes, told = ranks(tmp_path, 3, stop=-1)
    left = 6 * STEPS - 3 * STEPS - 2
    assert (codes, told) == ([0] * 3, [(rank, 6, left) for rank in range(3)])


def test_epochs_can_be_read_by_people(tmp_path: Path) -> None:
    epoch = Epoch(number=3, loss=None, seconds=0.0, gpus=1, attempt=2)
    assert epoch.line == "epoch=3 gpus=1 attempt=2\n"
