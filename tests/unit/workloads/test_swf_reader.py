"""Reading of SWF logs: valid rows, every kind of invalid row, and files of other formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from unit.workloads.swf_files import GOOD, job, log, real_log

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.odd_rows import (
    MEANINGS,
    FaultKind,
    OddRowPolicy,
    OddRowReport,
    RowOutcome,
    Treatment,
)
from wattfold.simulator.workloads.swf_reader import ReadLog, read_swf, stream_rows

SKIP = OddRowPolicy(default=Treatment.SKIP)
FAIL = OddRowPolicy(default=Treatment.FAIL)
KEEP = OddRowPolicy(default=Treatment.KEEP)


def found(read: ReadLog) -> list[tuple[int, FaultKind, RowOutcome, int, str]]:
    return [
        (row.line, row.rule, row.outcome, row.field_number, row.value) for row in read.report.rows
    ]


def test_all_eighteen_fields_and_the_header(tmp_path: Path) -> None:
    row = "9 1.5 2 3 4 5.5 6 7 8 9 1 11 12 13 14 15 8 17"
    path = log(tmp_path, "; MaxProcs: 128 (of 130)", ";", "; odd: é", row, name="l.swf")
    read = read_swf(path, FAIL)
    jobs = read.workload
    assert read.report.rows == []
    assert (jobs.job_ids[0], jobs.submit_s[0], jobs.wait_s[0], jobs.run_s[0]) == (9, 1.5, 2, 3)
    assert (jobs.procs[0], jobs.cpu_s[0], jobs.memory_kb[0]) == (4, 5.5, 6)
    assert (jobs.requested_procs[0], jobs.requested_s[0], jobs.requested_memory_kb[0]) == (7, 8, 9)
    assert (jobs.status[0], jobs.users[0], jobs.groups[0], jobs.executables[0]) == (1, 11, 12, 13)
    assert (jobs.queues[0], jobs.partitions[0]) == (14, 15)
    assert (jobs.preceding_jobs[0], jobs.think_s[0]) == (8, 17)
    assert (jobs.header.max_procs, jobs.header.max_nodes) == (128, None)
    assert jobs.header.lines == ("; MaxProcs: 128 (of 130)", ";", "; odd: é")


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "named-as-text"
    path.write_bytes(gzip.compress(f"{GOOD}\n".encode(), mtime=0))
    assert read_swf(path).workload.job_ids.tolist() == [7]


def test_blank_lines_comments_between_jobs_and_no_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "l.swf"
    path.write_text(f"\n{job(1)}\r\n  ; note\n\n{job(2, f5='x')}", encoding="utf-8")
    read = read_swf(path)
    assert read.workload.job_ids.tolist() == [1, 2]
    assert [row.line for row in read.report.rows] == [5, 5]
    assert read.workload.header.lines == ("; note",)


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "l.swf"
    path.write_text(f"; MaxProcs: 4\n{GOOD}\n", encoding="utf-8-sig")
    read = read_swf(path, FAIL)
    assert (len(read.workload), read.workload.header.max_procs) == (1, 4)


def test_an_empty_log_has_no_jobs(tmp_path: Path) -> None:
    read = read_swf(log(tmp_path))
    assert (len(read.workload), read.workload.span_s, read.report.data_lines) == (0, 0.0, 0)


CASES = [
    # (row, rule, outcome under repair, field, value, {column: repaired value})
    (
        " ".join(GOOD.split()[:9]),
        FaultKind.COLUMN_COUNT,
        RowOutcome.REPAIRED,
        0,
        "9 fields",
        {"users": -1},
    ),
    (GOOD + " 5", FaultKind.COLUMN_COUNT, RowOutcome.REPAIRED, 0, "19 fields", {"users": 3}),
    ("7 0 5", FaultKind.COLUMN_COUNT, RowOutcome.DROPPED, 0, "3 fields", None),
    (job(7, f12="bob"), FaultKind.BAD_NUMBER, RowOutcome.REPAIRED, 12, "bob", {"users": -1}),
    (
        job(7, f9="1e400"),
        FaultKind.BAD_NUMBER,
        RowOutcome.REPAIRED,
        9,
        "1e400",
        {"requested_s": -1},
    ),
    (job(7, f9="nan"), FaultKind.BAD_NUMBER, RowOutcome.REPAIRED, 9, "nan", {"requested_s": -1}),
    (job(7, f9="1_0"), FaultKind.BAD_NUMBER, RowOutcome.REPAIRED, 9, "1_0", {"requested_s": -1}),
    (job(7, f2="\x1b[31m"), FaultKind.BAD_NUMBER, RowOutcome.DROPPED, 2, "?[31m", None),
    (job(7, f5="3.5"), FaultKind.NOT_WHOLE, RowOutcome.REPAIRED, 5, "3.5", {"procs": 4}),
    (job(7, f3=-7), FaultKind.NEGATIVE_VALUE, RowOutcome.REPAIRED, 3, "-7", {"wait_s": -1}),
    (job(-7), FaultKind.NEGATIVE_VALUE, RowOutcome.DROPPED, 1, "-7", None),
    (job(7, -3), FaultKind.NEGATIVE_SUBMIT, RowOutcome.REPAIRED, 2, "-3", {"submit_s": 0}),
    (job(7, f5=-1, f8=6), FaultKind.NO_SIZE, RowOutcome.REPAIRED, 5, "-1", {"procs": 6}),
    (job(7, f5=0, f8=-1), FaultKind.NO_SIZE, RowOutcome.DROPPED, 5, "0", None),
    (job(7, f4=-1), FaultKind.NO_RUN, RowOutcome.DROPPED, 4, "-1", None),
    (job(7, f4=0), FaultKind.ZERO_RUN, RowOutcome.REPAIRED, 4, "0", {"run_s": 1}),
    (job(7, f4=300), FaultKind.RUN_OVER_REQUESTED, RowOutcome.REPAIRED, 4, "300", {"run_s": 200}),
]


@pytest.mark.parametrize(("row", "rule", "outcome", "field", "value", "columns"), CASES)
def test_odd_rows_are_mended_or_dropped_and_recorded(
    tmp_path: Path,
    row: str,
    rule: FaultKind,
    outcome: RowOutcome,
    field: int,
    value: str,
    columns: dict[str, float] | None,
) -> None:
    path = log(tmp_path, "; first", job(1), row)
    read = read_swf(path)
    assert found(read) == [(3, rule, outcome, field, value)]
    assert len(read.workload) == (1 if columns is None else 2)
    for name, expected in (columns or {}).items():
        assert getattr(read.workload, name)[1] == expected
    skipped = read_swf(path, SKIP)
    assert found(skipped) == [(3, rule, RowOutcome.DROPPED, field, value)]
    assert skipped.workload.job_ids.tolist() == [1]
    with pytest.raises(LogError) as caught:
        read_swf(path, FAIL)
    assert caught.value.line == 3
    assert str(caught.value).startswith(f"{path}:3: {rule.value}")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("rule", [FaultKind.NO_SIZE, FaultKind.NO_RUN, FaultKind.ZERO_RUN])
def test_an_exception_keeps_rows_of_one_rule(tmp_path: Path, rule: FaultKind) -> None:
    change = {
        FaultKind.NO_SIZE: {"f5": -1, "f8": -1},
        FaultKind.NO_RUN: {"f4": -1},
        FaultKind.ZERO_RUN: {"f4": 0},
    }
    path = log(tmp_path, job(1), job(2, **change[rule]))
    policy = OddRowPolicy(default=Treatment.FAIL, exceptions={rule: Treatment.KEEP})
    read = read_swf(path, policy)
    assert [row.outcome for row in read.report.rows] == [RowOutcome.KEPT]
    assert len(read.workload) == 2
    assert min(read.workload.procs[1], read.workload.run_s[1]) <= 0


def test_rows_out_of_order_are_sorted_or_dropped(tmp_path: Path) -> None:
    path = log(tmp_path, job(1, 10), job(2, 5), job(3, 10), job(4, 7))
    read = read_swf(path)
    assert read.workload.job_ids.tolist() == [2, 4, 1, 3]
    assert read.report.lines(FaultKind.OUT_OF_ORDER) == [2, 4]
    assert read_swf(path, SKIP).workload.job_ids.tolist() == [1, 3]
    assert read_swf(path, KEEP).workload.job_ids.tolist() == [1, 2, 3, 4]


def test_a_repeated_id_gets_one_above_all_others(tmp_path: Path) -> None:
    path = log(tmp_path, job(5), job(9), job(5), job(5))
    read = read_swf(path)
    assert read.workload.job_ids.tolist() == [5, 9, 10, 11]
    assert read.report.lines(FaultKind.REPEATED_ID) == [3, 4]
    assert read_swf(path, SKIP).workload.job_ids.tolist() == [5, 9]


def test_parts_of_a_job_are_dropped_where_the_whole_is_there(tmp_path: Path) -> None:
    path = log(tmp_path, job(5), job(5, f11=2), job(5, f11=3), job(6, f11=4))
    read = read_swf(path)
    assert read.workload.job_ids.tolist() == [5, 6]
    assert read.report.lines(FaultKind.PARTIAL_LINE) == [2, 3]
    assert read.report.count(FaultKind.PARTIAL_LINE, RowOutcome.DROPPED) == 2


def test_elements_of_job_arrays_become_jobs(tmp_path: Path) -> None:
    rows = [job(4), job(7).replace("7 ", "7_1 ", 1), job(7).replace("7 ", "7[2] ", 1), job(8)]
    read = read_swf(log(tmp_path, *rows), FAIL)
    assert read.workload.job_ids.tolist() == [4, 9, 10, 8]
    assert read.workload.array_ids.tolist() == [-1, 7, 7, -1]
    assert read.report.array_elements == 2


def test_a_row_may_count_under_several_rules(tmp_path: Path) -> None:
    read = read_swf(log(tmp_path, job(1, f4=0, f5=-1, f8=-1), job(2)))
    assert [(row.rule, row.outcome) for row in read.report.rows] == [
        (FaultKind.NO_SIZE, RowOutcome.DROPPED),
        (FaultKind.ZERO_RUN, RowOutcome.REPAIRED),
    ]
    assert read.report.dropped_lines() == {1}


def test_lines_are_counted_across_blocks(tmp_path: Path) -> None:
    rows = [job(number) for number in range(1, 40_001)]
    rows[35_000] = "x"
    read = read_swf(log(tmp_path, "; header", *rows))
    assert found(read) == [(35_002, FaultKind.COLUMN_COUNT, RowOutcome.DROPPED, 0, "1 fields")]
    assert read.report.data_lines == 40_000
    assert np.array_equal(np.delete(np.arange(1, 40_001), 35_000), read.workload.job_ids)


def test_blocks_of_a_stream_hold_all_rows(tmp_path: Path) -> None:
    path = log(tmp_path, *[job(number) for number in range(1, 40_001)])
    blocks = list(stream_rows(path, OddRowPolicy(), OddRowReport()))
    assert len(blocks) > 1
    assert sum(len(block.lines) for block in blocks) == 40_000


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (gzip.compress(f"{GOOD}\n".encode() * 9, mtime=0)[:-12], 0, "broken gzip data"),
        (b"\x1f\x8b\x00garbage", 0, "broken gzip data"),
        (f"{GOOD}\n".encode() + b"0" * 3_000_000, 2, "more than 65536 bytes"),
    ],
)
def test_a_file_that_is_no_log_is_refused(
    tmp_path: Path, content: bytes, line: int, words: str
) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(LogError, match=words) as caught:
        read_swf(path)
    assert not line or caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(LogError, match="cannot be read"):
            read_swf(path)


def test_every_rule_is_explained_in_the_code_and_in_the_documents() -> None:
    assert list(MEANINGS) == list(FaultKind)
    page = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text(encoding="utf-8")
    for rule, (meaning, repair) in MEANINGS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{rule.value}` |"))
        assert row.replace(" (status 2 to 4)", "") == f"| `{rule.value}` | {meaning} | {repair} |"


@pytest.mark.parametrize(("name", "jobs"), [("kth_sp2", 28_481), ("sdsc_sp2", 54_006)])
def test_filtered_logs_of_the_archive_have_no_odd_rows(name: str, jobs: int) -> None:
    read = read_swf(real_log(f"{name}.swf.gz"), FAIL)
    assert len(read.workload) == jobs


def test_odd_rows_of_curie() -> None:
    read = read_swf(real_log("curie_2011_partition10.swf.gz"))
    report = read.report
    assert report.data_lines == 198_509
    assert report.count(FaultKind.NO_SIZE, RowOutcome.DROPPED) == 11
    assert report.count(FaultKind.ZERO_RUN) + report.count(FaultKind.NO_RUN) == 11_188
    assert report.count(FaultKind.RUN_OVER_REQUESTED) == 3_359
    assert len(read.workload) == 198_498


def test_jobs_of_ricc() -> None:
    assert read_swf(real_log("ricc_2010.swf.gz")).report.data_lines == 447_794
