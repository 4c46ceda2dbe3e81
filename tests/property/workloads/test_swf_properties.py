"""The SWF reader on any input, and the writer against the reader."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.header import Header
from wattfold.simulator.workloads.odd_rows import OddRowPolicy, Treatment
from wattfold.simulator.workloads.swf_reader import ReadLog, read_swf
from wattfold.simulator.workloads.swf_writer import write_swf
from wattfold.simulator.workloads.workload import (
    COLUMNS,
    INT_COLUMNS,
    Workload,
)

TOKENS = st.one_of(
    st.integers(-3, 40).map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.sampled_from(["-1", "0", "", "x", "nan", "1e9", "1_0", "0x1", "7_2", "7[3]", ";", "\x00"]),
    st.text(max_size=4),
)
ROWS = st.lists(TOKENS, max_size=20).map(" ".join)
ORDERLY = st.lists(st.integers(-1, 30).map(str), min_size=18, max_size=18).map(" ".join)
TEXTS = st.lists(st.one_of(ROWS, ORDERLY, ORDERLY), max_size=12).map("\n".join)
CONTENTS = st.one_of(
    st.binary(max_size=300),
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    TEXTS.map(lambda text: gzip.compress(text.encode("utf-8", "surrogatepass"), mtime=0)),
    st.binary(max_size=60).map(lambda data: b"\x1f\x8b\x08" + data),
)


def read_bytes(content: bytes, treatment: Treatment) -> ReadLog | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(content)
        try:
            return read_swf(path, OddRowPolicy(default=treatment))
        except LogError as error:
            message = str(error)
    assert len(message.splitlines()) == 1
    return None


@settings(max_examples=examples(300))
@given(content=CONTENTS, treatment=st.sampled_from(Treatment))
def test_anything_is_read_or_refused_in_one_line(content: bytes, treatment: Treatment) -> None:
    read_bytes(content, treatment)


@settings(max_examples=examples(300))
@given(content=CONTENTS)
def test_what_is_repaired_can_be_simulated_and_every_line_is_accounted_for(content: bytes) -> None:
    read = read_bytes(content, Treatment.REPAIR)
    if read is None:
        return
    jobs, report = read.workload, read.report
    assert len(jobs) + len(report.dropped_lines()) == report.data_lines
    assert len(set(jobs.job_ids.tolist())) == len(jobs)
    assert np.all(jobs.procs > 0)
    assert np.all(jobs.run_s > 0)
    assert np.all(np.diff(jobs.submit_s) >= 0)
    assert np.all(jobs.submit_s >= 0)
    for name in COLUMNS:
        assert np.all(getattr(jobs, name) >= -1)


@settings(max_examples=examples(300))
@given(content=CONTENTS)
def test_skipping_leaves_rows_that_are_not_odd_at_all(content: bytes) -> None:
    read = read_bytes(content, Treatment.SKIP)
    if read is None or read.report.array_elements:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "again.swf"
        write_swf(read.workload.with_header(Header()), path)
        again = read_swf(path, OddRowPolicy(default=Treatment.FAIL))
    for name in COLUMNS:
        assert np.array_equal(getattr(again.workload, name), getattr(read.workload, name))


@settings(max_examples=examples(300))
@given(rows=st.lists(st.one_of(ORDERLY, ORDERLY, ROWS), max_size=8))
def test_an_odd_row_changes_nothing_for_the_others(rows: list[str]) -> None:
    """Valid rows are parsed together, but one by one in a log with an invalid row."""
    content = "\n".join(row.replace("\n", "") for row in rows).encode("utf-8", "surrogatepass")
    alone = read_bytes(content, Treatment.KEEP)
    beside = read_bytes(content + b"\nx\n", Treatment.KEEP)
    if beside is None or alone is None:
        # A log needs a valid row, so an additional invalid row gives no log either.
        assert beside is None
        assert alone is None or len(alone.workload) == 0
        return
    for name in COLUMNS:
        assert np.array_equal(getattr(alone.workload, name), getattr(beside.workload, name))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(0, 8))
    whole = st.lists(st.integers(-1, 2**52), min_size=count, max_size=count)
    exact = st.lists(st.floats(0.001, 1e9) | st.just(-1.0), min_size=count, max_size=count)
    columns = {name: draw(whole if name in INT_COLUMNS else exact) for name in COLUMNS}
    columns["job_ids"] = list(range(1, count + 1))
    columns["submit_s"] = sorted(draw(st.lists(st.floats(0, 1e9), min_size=count, max_size=count)))
    lines = draw(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Z"]))))
    header = Header(lines=tuple(f"; {line}".strip() for line in lines))
    header = header.with_value("MaxJobs", count).with_value("MaxRecords", count)
    return Workload.of_columns(header, **columns)


@settings(max_examples=examples(150))
@given(jobs=workloads(), name=st.sampled_from(["log.swf", "log.swf.gz"]))
def test_what_is_written_reads_back_the_same(jobs: Workload, name: str) -> None:
    keep = OddRowPolicy(default=Treatment.KEEP)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_swf(jobs, path)
        read = read_swf(path, keep)
        first = path.read_bytes()
        write_swf(jobs, path)
        assert path.read_bytes() == first
    assert read.workload.equals(jobs)
