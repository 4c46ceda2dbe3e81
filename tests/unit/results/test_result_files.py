"""Files of jobs and time series: content, bytes, and rows written as jobs end."""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.results.records import record, small

from wattfold.simulator.results.errors import ResultFileError
from wattfold.simulator.results.files import write_jobs, write_series
from wattfold.simulator.results.job_columns import JobRow, job_row
from wattfold.simulator.results.job_stream import JobStream
from wattfold.simulator.workloads.errors import LogError

UNFINISHED = record([(0, 0, 100, 4), (10.25, 100, -1, 2), (20, -1, -1, 1)])


def table(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode())))


def test_one_row_a_job_with_units_in_the_names(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    write_jobs(small(stalled_s=(0, 0, 51)), path)
    rows = table(path.read_bytes())
    assert [row["job_id"] for row in rows] == ["1", "2", "3"]
    wanted = {"submit_s": "120", "start_s": "204", "end_s": "304", "wait_s": "84", "run_s": "100"}
    wanted |= {"response_s": "184", "slowdown": "1.84", "size_first": "1", "size_last": "1"}
    wanted |= {"resizes": "1", "stalled_s": "51", "node_s": "100", "energy_j": "11600"}
    wanted |= {"cap_w_first": "60", "cap_w_mean": "55.5000005", "malleable": "1", "user": "2"}
    assert {name: rows[2][name] for name in wanted} == wanted


def test_what_has_not_happened_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    write_jobs(UNFINISHED, path)
    _, runs, waits = table(gzip.decompress(path.read_bytes()))
    assert (runs["submit_s"], runs["start_s"], runs["end_s"]) == ("10.25", "100", "")
    assert (runs["wait_s"], runs["run_s"], runs["size_first"]) == ("89.75", "", "2")
    for name in ("start_s", "wait_s", "slowdown", "size_last", "cap_w_mean", "resizes"):
        assert waits[name] == "", name
    assert waits["size_max"] == "1"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_the_same_record_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    first, second = tmp_path / name, tmp_path / "other" / f"b{name}"
    write_jobs(UNFINISHED, first)
    write_jobs(UNFINISHED, second)
    assert first.read_bytes() == second.read_bytes()
    write_series(small().series, first)
    write_series(small().series, second)
    assert first.read_bytes() == second.read_bytes()


def test_parquet_holds_what_csv_holds(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_jobs(UNFINISHED, tmp_path / "jobs.parquet")
    write_jobs(UNFINISHED, tmp_path / "jobs.csv")
    held = parquet.read_table(tmp_path / "jobs.parquet").to_pylist()
    said = table((tmp_path / "jobs.csv").read_bytes())
    numbers = [{k: float(v) if v else None for k, v in row.items()} for row in said]
    assert held == numbers


def test_series(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    write_series(small().series, path)
    rows = path.read_text().splitlines()
    assert rows[0] == "time_s,queued,running,nodes_busy,committed_w,drawn_w,budget_w"
    assert rows[4] == "200,1,1,4,464,400,464"
    assert len(rows) == 7


def test_a_name_without_a_format_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match=r"must end in \.csv, \.csv\.gz or \.parquet"):
        write_jobs(small(), tmp_path / "jobs.txt")
    with pytest.raises(LogError, match="cannot be written: No such file"):
        write_jobs(small(), tmp_path / "no" / "jobs.csv")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not installed')\n")
    script = (
        "from pathlib import Path\n"
        "from unit.results.records import small\n"
        "from wattfold.simulator.results.files import write_jobs\n"
        "write_jobs(small(), Path('jobs.csv'))\n"
        "write_jobs(small(), Path('jobs.parquet'))\n"
    )
    tests = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{tests}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Parquet needs pyarrow: pip install 'wattfold[parquet]'" in done.stderr
    assert (tmp_path / "jobs.csv").is_file()
    assert not (tmp_path / "jobs.parquet").exists()


def rows_of(count: int) -> list[JobRow]:
    run = record([(i, i + 0.5, i + 10.1, 1 + i % 4) for i in range(count)])
    return [job_row(run.jobs, run.columns, i) for i in range(count)]


def whole(path: Path, rows: list[JobRow]) -> bytes:
    with JobStream(path) as stream:
        for row in rows:
            stream.append(row)
    return path.read_bytes()


def test_rows_as_jobs_end_are_those_of_the_whole_file(tmp_path: Path) -> None:
    run = small()
    write_jobs(run, tmp_path / "jobs.csv")
    rows = [job_row(run.jobs, run.columns, i) for i in range(3)]
    assert whole(tmp_path / "stream.csv", rows) == (tmp_path / "jobs.csv").read_bytes()


def test_flushed_rows_can_be_read_while_the_file_grows(tmp_path: Path) -> None:
    rows = rows_of(3)
    with JobStream(tmp_path / "jobs.csv") as stream:
        stream.append(rows[0])
        stream.flush()
        assert len(table((tmp_path / "jobs.csv").read_bytes())) == 1
        assert stream.position() == (tmp_path / "jobs.csv").stat().st_size
    stream.close()


# A slow machine is not a fault of the file.
@settings(max_examples=examples(30))
@given(
    count=st.integers(0, 1200), noted=st.floats(0, 1), lost=st.floats(0, 1), torn=st.integers(0, 9)
)
def test_a_run_stopped_anywhere_and_continued_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, count: int, noted: float, lost: float, torn: int
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    rows = rows_of(count)
    at = int(noted * count)
    stopped = at + int(lost * (count - at))
    stream = JobStream(folder / "a.csv")
    for row in rows[:at]:
        stream.append(row)
    position = stream.position()
    for row in rows[at:stopped]:
        stream.append(row)
    stream.close()
    with (folder / "a.csv").open("ab") as file:
        file.write(b"1,2,3.25,9"[:torn])
    with JobStream.resume(folder / "a.csv", position) as again:
        assert again.position() == position
        for row in rows[at:]:
            again.append(row)
    assert (folder / "a.csv").read_bytes() == whole(folder / "b.csv", rows)


def test_files_that_cannot_be_continued_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    data = whole(path, rows_of(2))
    for at_byte, said in (
        (len(data) + 1, "it has"),
        (3, "it has"),
        (len(data) - 1, "end of a row"),
    ):
        with pytest.raises(ResultFileError, match=said):
            JobStream.resume(path, at_byte)
    assert path.read_bytes() == data
    path.write_bytes(b"x" * len(data))
    with pytest.raises(ResultFileError, match="its columns differ"):
        JobStream.resume(path, len(data))
    with pytest.raises(ResultFileError, match="No such file"):
        JobStream.resume(tmp_path / "none.csv", 0)
    with pytest.raises(ResultFileError, match="plain CSV"):
        JobStream(tmp_path / "jobs.csv.gz")
