"""Logs and simulations: downloads, names, line ends, empty logs, plots, compared values."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import signal
import socket
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from system.cli.test_cli_simulate_stop import LONG, Simulation
from unit.cli.command import Command
from unit.core.stage import Stage
from unit.results.records import small
from unit.sweep import test_sweep
from unit.workloads.swf_files import job, log

from wattfold.simulator.results.comparison import compared, comparison_document
from wattfold.simulator.results.scales import common_time_scale
from wattfold.simulator.runs.case import WorkloadSource
from wattfold.simulator.workloads.download import fetch
from wattfold.simulator.workloads.errors import FetchError
from wattfold.simulator.workloads.swf_reader import read_swf

ROOT = Path(__file__).resolve().parents[2]
wattfold = Command("unix:/nowhere")


def test_a_download_without_a_network_leaves_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/log.swf.gz"
        with pytest.raises(FetchError) as caught:
            fetch(url, tmp_path / "log.swf.gz")
    assert str(caught.value) == (
        f"{url}: Connection refused; check the network, give --mirror URL, or copy the log into "
        "the folder"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("CTC-SP2-1996-3.1-cln.swf.gz", "CTC-SP2-1996-3.1-cln"),
        ("log-3.1", "log-3.1"),
        ("jobs.csv", "jobs"),
    ],
)
def test_a_dot_is_part_of_the_name_of_a_log(file: str, name: str) -> None:
    assert WorkloadSource(log=Path("folder.d") / file).name == name


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_line_ends_of_other_systems_end_lines(tmp_path: Path, end: str, packed: bool) -> None:
    rows = [job(number, number) for number in range(1, 30_000)]
    lines = ["; Computer: x", *rows, job(30_000, 30_000, f18="x")]
    data = "".join(f"{line}{end}" for line in lines).encode()
    path = tmp_path / "log.swf"
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    read = read_swf(path)
    assert len(read.workload) == 30_000
    assert read.workload.header.lines == ("; Computer: x",)
    assert read.report.rows[0].line == 30_001


def test_a_row_of_a_log_is_held_twice_at_most(tmp_path: Path) -> None:
    rows = 100_000
    path = log(tmp_path, *(job(number, number) for number in range(1, rows + 1)))
    tracemalloc.start()
    try:
        read_swf(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / rows < 450, "18 numbers are 144 bytes"


@pytest.mark.parametrize("command", [("simulate", "--nodes", "4"), ("compare", "--nodes", "4")])
def test_an_empty_log_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    empty = log(tmp_path)
    result = wattfold(*command, "--budget", "1kW", "--log", str(empty))
    assert f"{empty}: the log has no jobs" in result.stderr


def test_times_of_a_picture_have_one_unit() -> None:
    assert common_time_scale([[300_000.0], [35_000.0, 2_000.0], [400.0]]).unit == "h"
    assert common_time_scale([[float("nan")]]).unit == "s"


def test_medians_and_tails_are_compared() -> None:
    record = small()
    [document] = comparison_document([[compared(record)]])
    ended = record.columns.end_ns >= 0
    waits = (record.columns.start_ns - record.jobs.submit_ns)[ended] / 1e9
    assert document["wait_s_median"] == pytest.approx(np.median(waits))
    assert document["wait_s_p99"] == pytest.approx(np.percentile(waits, 99))
    assert document["bounded_slowdown_median"] is not None


def test_the_time_of_a_decision_is_shown() -> None:
    words = ("--model", "lublin", "--jobs", "20", "--nodes", "16", "--budget", "3kW")
    text = wattfold("compare", *words, "--cut-sizes", "--policies=easy,fifo").stdout
    [line] = [line for line in text.splitlines() if line.startswith("Time per simulated decision")]
    assert "easy" in line
    assert "fcfs" in line


def test_the_state_holds_no_iterator_that_cannot_be_copied() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    index = stage.core.state.index
    held = [getattr(index, name) for name in vars(index)]
    assert not [value for value in held if isinstance(value, itertools.count)]
    assert pickle.loads(pickle.dumps(index)).open.keys() == index.open.keys()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_that_is_ended_leaks_no_semaphores(tmp_path: Path, end: signal.Signals) -> None:
    test_sweep.test_no_process_outlives_a_sweep_that_is_ended(tmp_path, end)


def test_a_run_that_is_terminated_can_be_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Simulation(*LONG, folder=folder) as run:
        run.until((folder / "easy-seed0" / "jobs.csv").exists)
        run.process.send_signal(signal.SIGTERM)
        assert "stopped; the same command with --resume continues" in run.end(130)
    assert (folder / "easy-seed0" / "checkpoint").exists()


def test_examples_can_be_run() -> None:
    programs = sorted((ROOT / "runtime_shims/examples").glob("*.py"))
    assert "blocks.py" in [path.name for path in programs]
    for path in programs:
        assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")
        assert os.access(path, os.X_OK), path
