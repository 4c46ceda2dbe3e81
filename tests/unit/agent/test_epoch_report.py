"""Reports that a training job writes to its snapshot folder, as its agent reads them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.epoch_file import EpochFiles, read
from wattfold.nodeagent.core.epoch_report import TAIL_BYTES, EpochReport, parse
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.records import Job, JobState, from_record, to_record


def line(epoch: int, attempt: int = 1, seconds: float = 2.0) -> bytes:
    return f"epoch={epoch} seconds={seconds} gpus=1 attempt={attempt} loss=nan\n".encode()


def told(epoch: int, epoch_s: float = 0, timed: int = 0, mean_s: float = 0) -> EpochReport:
    return EpochReport(
        epoch=epoch, epoch_ns=round(epoch_s * 1e9), timed=timed, mean_ns=round(mean_s * 1e9)
    )


@pytest.mark.parametrize(
    ("attempt", "tail", "report"),
    [
        (1, b"", None),
        (1, b"nothing\n", None),
        (1, b"epoch=3", None),  # The line is incomplete.
        (1, b"epoch=3\n", told(3)),
        (1, line(4), told(4)),
        (1, line(4) + line(5, seconds=3) + line(6, seconds=5), told(6, 5, 2, 4)),
        # The first epoch after a restart gives no speed, nor do epochs before the restart.
        (2, line(4) + line(5) + line(6, 2), told(6)),
        (2, line(4, 2) + line(5, 2) + b"epoch=6 attempt=2\n", told(6, 0, 1, 2)),
        (1, line(4) + b"epoch=-1\nepoch=9 seconds=nan\nepoch=9 seconds=1e9\n", told(4)),
        (1, line(4) + b"\xff\xfe epoch\n", told(4)),
    ],
)
def test_lines(attempt: int, tail: bytes, report: EpochReport | None) -> None:
    assert parse(tail, attempt) == report


@given(st.binary(max_size=300), st.integers(1, 3))
def test_nothing_that_a_program_writes_harms(tail: bytes, attempt: int) -> None:
    found = parse(tail, attempt)
    assert found is None or found.epoch >= 0


def test_only_the_end_of_a_plain_file_is_read(tmp_path: Path) -> None:
    assert read(str(tmp_path), 1) is None
    file = tmp_path / "epochs"
    file.write_bytes(b"".join(line(number) for number in range(1000)))
    found = read(str(tmp_path), 1)
    assert found is not None
    assert (found.epoch, found.epoch_ns) == (999, 2 * 10**9)
    assert found.timed < TAIL_BYTES / len(line(999))
    file.unlink()
    os.mkfifo(file)
    assert read(str(tmp_path), 1) is None
    file.unlink()
    (tmp_path / "other").write_bytes(line(1))
    file.symlink_to(tmp_path / "other")
    assert read(str(tmp_path), 1) is None


def training(folder: Path) -> Job:
    cpus = CpuSet.parse("0")
    return Job(
        id=JobId("7"), state=JobState.RUNNING, cpus=cpus, held=cpus, mode=ResizeMode.FIXED,
        launch_cpus=1, epochs=9, snapshot_path=str(folder),
    )  # fmt: skip


def test_the_last_report_is_taken_and_kept(tmp_path: Path) -> None:
    job = training(tmp_path)

    async def end() -> None:
        files = EpochFiles()
        await files.last(job)
        assert job.report is None
        (tmp_path / "epochs").write_bytes(line(3) + line(4))
        await asyncio.gather(*files.look_at([job]))
        (tmp_path / "epochs").unlink()
        await files.last(job)
        files.close()

    asyncio.run(end())
    assert job.report == EpochReport(epoch=4, epoch_ns=2 * 10**9, timed=1, mean_ns=2 * 10**9)
    again = from_record("7", to_record(job))
    assert (again.epochs, again.report) == (9, job.report)
    record = to_record(job)
    del record["epochs"], record["report"]
    assert from_record("7", record).report is None
