"""`wattfold workload`: output, files, and failures in one line."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.workloads.archive_server import Site, served
from unit.workloads.swf_files import job, log

from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.simulator.workloads.annotations import read_annotations
from wattfold.simulator.workloads.swf_reader import read_swf


@pytest.fixture
def wattfold() -> Command:
    """These commands never call the coordinator, so there is none at this address."""
    return Command("unix:/nonexistent/wattfold.sock")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return log(
        tmp_path,
        "; Installation: Test \x1b[31m site",
        "; MaxProcs: 64",
        job(1, 0),
        job(2, 60, f4=0),
        job(3, 120, f5=32, f16=2),
        job(4, 30),
        "5 200 bad",
    )


def test_describe_shows_figures_and_odd_rows(wattfold: Command, small: Path) -> None:
    result = wattfold("workload", "describe", str(small))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "\x1b" not in result.output
    assert any(line.split() == ["Jobs", "4", "of", "5", "rows"] for line in lines)
    assert any(line.split() == ["Processors", "64"] for line in lines)
    assert any(line.split()[:5] == ["zero-run", "1", "1", "0", "0"] for line in lines)
    assert any(line.split()[:6] == ["column-count", "1", "0", "1", "0", "7"] for line in lines)
    assert any(line.startswith("4-7") and "#" in line for line in lines)


def test_describe_as_json(wattfold: Command, small: Path) -> None:
    document = wattfold.json("workload", "describe", str(small))
    assert (document["jobs"], document["rows"], document["machine_procs"]) == (4, 5, 64)
    assert document["header"][1] == {"key": "MaxProcs", "value": "64"}
    assert [entry["rule"] for entry in document["odd_rows"]] == [
        "column-count",
        "zero-run",
        "out-of-order",
    ]
    assert document["odd_rows"][0]["first_lines"] == [7]
    assert document["run_histogram"]["edges"][-1] is None


def test_describe_a_log_without_faults_and_one_without_jobs(
    wattfold: Command, tmp_path: Path
) -> None:
    good = wattfold("workload", "describe", str(log(tmp_path, job(1))))
    assert good.output.splitlines()[-1] == "No invalid rows."
    empty = wattfold("workload", "describe", str(log(tmp_path, name="empty")))
    assert empty.exit_code == 0, empty.output


def test_a_file_whose_name_is_no_text(wattfold: Command, small: Path) -> None:
    odd = small.rename(small.with_name(os.fsdecode(b"l\xff\n.swf")))
    assert wattfold.json("workload", "describe", str(odd))["file"].endswith("l??.swf")
    missing = wattfold("workload", "describe", str(small.with_name(os.fsdecode(b"\xfe\n"))))
    assert (missing.exit_code, missing.stderr.count("\n")) == (ExitCode.REFUSED, 1)


def test_every_odd_row_is_listed(wattfold: Command, small: Path, tmp_path: Path) -> None:
    listed = tmp_path / "odd.csv"
    result = wattfold(
        "workload", "describe", str(small), "--odd-rows", str(listed), "--rule", "zero-run=skip"
    )
    assert result.exit_code == 0, result.output
    assert list(csv.reader(listed.read_text().splitlines())) == [
        ["line", "rule", "outcome", "field", "value"],
        ["7", "column-count", "dropped", "0", "3 fields"],
        ["4", "zero-run", "dropped", "4", "0"],
        ["6", "out-of-order", "repaired", "2", "30"],
    ]


def test_convert_chooses_and_scales(wattfold: Command, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.swf.gz"
    result = wattfold(
        "workload",
        "convert",
        str(small),
        str(out),
        "--procs-per-node=4",
        "--sizes=1-8",
        "--first=1",
        "--count=2",
        "--gamma=0.5",
        "--exact",
        "--from-zero",
        "--max-size=1",
    )
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"2 jobs of 5 rows written to {out}"
    jobs = read_swf(out).workload
    assert jobs.job_ids.tolist() == [4, 2]
    assert jobs.submit_s.tolist() == [0, 15]
    assert jobs.procs.tolist() == [1, 1]
    assert jobs.requested_s.tolist() == [100, 1]
    assert jobs.header.max_procs == 16
    assert jobs.header.number("MaxJobs") == 2
    note = next(line for line in jobs.header.lines if "converted by wattfold" in line)
    assert "gamma 0.5" in note
    assert "sizes 1,8" in note


@pytest.mark.parametrize(
    ("option", "ids"),
    [
        ("--partitions=2", [3]),
        ("--ids=2-3", [2, 3]),
        ("--from-id=2", [2, 3]),
        ("--users=9", []),
        ("--queues=0", [1, 4, 2, 3]),
        ("--statuses=1,5", [1, 4, 2, 3]),
        ("--from-time=60", [2, 3]),
        ("--to-time=60", [1, 4]),
    ],
)
def test_convert_by_each_choice(
    wattfold: Command, small: Path, tmp_path: Path, option: str, ids: list[int]
) -> None:
    document = wattfold.json("workload", "convert", str(small), str(tmp_path / "o"), option)
    assert document["jobs"] == len(ids)
    assert read_swf(tmp_path / "o").workload.job_ids.tolist() == ids


def test_convert_may_replace_its_input_and_annotate(
    wattfold: Command, small: Path, tmp_path: Path
) -> None:
    ranges = tmp_path / "power.csv"
    result = wattfold(
        "workload", "convert", str(small), str(small), "--annotations", str(ranges), "--seed=3"
    )
    assert result.exit_code == 0, result.output
    jobs = read_swf(small).workload
    assert read_annotations(ranges).job_ids.tolist() == jobs.job_ids.tolist()


@pytest.mark.parametrize(
    "arguments",
    [
        ("lublin", "--procs=64", "--kind=both", "--overestimate=2"),
        ("poisson", "--load=0.7", "--procs=32", "--mean=10", "--sigma=1"),
    ],
)
def test_generate_gives_the_same_bytes_for_a_seed(
    wattfold: Command, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    made = []
    for name in ("a", "b"):
        out, ranges = tmp_path / f"{name}.swf.gz", tmp_path / f"{name}.csv.gz"
        words = ("workload", "generate", arguments[0], str(out), *arguments[1:])
        document = wattfold.json(*words, "--jobs=50", "--seed=4", f"--annotations={ranges}")
        assert document["jobs"] == 50
        assert len(read_annotations(ranges)) == 50
        made.append((out.read_bytes(), ranges.read_bytes()))
    assert made[0] == made[1]


def test_generate_from_a_log(wattfold: Command, tmp_path: Path) -> None:
    like, out = tmp_path / "like.swf", tmp_path / "out.swf"
    assert wattfold("workload", "generate", "lublin", str(like), "--jobs=500").exit_code == 0
    result = wattfold("workload", "generate", "refitted", str(out), f"--like={like}", "--jobs=70")
    assert result.output == f"70 jobs written to {out}\n"
    assert "refitted" in out.read_text()


def test_fetch_into_the_folder_of_the_environment(wattfold: Command, tmp_path: Path) -> None:
    site = Site(content=gzip.compress(b"; a log\n"))
    with served(site) as address:
        words = ("workload", "fetch", "KTH-SP2", "--mirror", address)
        environment = {"WATTFOLD_WORKLOADS": str(tmp_path)}
        first = wattfold(*words, env=environment)
        assert first.exit_code == 0, first.output
        assert "no checksum of kth-sp2 was known; stored " in first.stderr
        second = wattfold(*words, "--json", env=environment)
        document = json.loads(second.stdout)
    assert document["was_there"]
    assert not document["checksum_learnt"]
    assert site.paths == ["/l_kth_sp2/KTH-SP2-1996-2.1-cln.swf.gz"]
    assert (tmp_path / "KTH-SP2-1996-2.1-cln.swf.gz").exists()


def test_fetch_without_a_name_lists_what_there_is(wattfold: Command) -> None:
    assert "curie" in wattfold("workload", "fetch").output
    logs = wattfold.json("workload", "fetch")["logs"]
    assert {"name", "about", "url", "sha256"} == set(logs[0])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("describe none.swf", ExitCode.REFUSED, "none.swf: cannot be read: No such file"),
        ("describe --on-odd fail BAD", ExitCode.REFUSED, ":7: column-count: '3 fields'"),
        ("describe --rule zero=skip BAD", ExitCode.USAGE, "not a rule and its treatment"),
        ("describe --rule zero-run=mend BAD", ExitCode.USAGE, "not a rule and its treatment"),
        ("convert BAD none/out", ExitCode.REFUSED, "none/out: cannot be written"),
        ("convert --sizes 9-1 BAD out", ExitCode.USAGE, "MIN <= MAX"),
        ("convert --users x BAD out", ExitCode.USAGE, "not a list of whole numbers"),
        ("convert --gamma -1 BAD out", ExitCode.USAGE, "gamma must be"),
        ("convert --from-id 77 BAD out", ExitCode.USAGE, "no job has the id 77"),
        ("generate poisson out", ExitCode.USAGE, "needs --load"),
        ("generate refitted out", ExitCode.USAGE, "needs --like"),
        (
            "generate lublin --load 1 out",
            ExitCode.USAGE,
            "--load does not apply to the model lublin",
        ),
        ("generate lublin --procs 1 out", ExitCode.USAGE, "at least 2 processors"),
        ("fetch nowhere --to .", ExitCode.NO_SUCH_JOB, "no log with the name 'nowhere'"),
        ("fetch kth-sp2", ExitCode.USAGE, "no folder for the log"),
        ("fetch kth-sp2 --to none", ExitCode.USAGE, "no such folder"),
        ("fetch kth-sp2 --to . --checksum 12", ExitCode.USAGE, "64 hexadecimal digits"),
        ("fetch kth-sp2 --to . --mirror ftp://x", ExitCode.REFUSED, "not an http"),
    ],
)
def test_failures_are_one_line(
    wattfold: Command,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    code: ExitCode,
    message: str,
) -> None:
    monkeypatch.chdir(small.parent)
    arguments = [str(small) if word == "BAD" else word for word in words.split()]
    result = wattfold("workload", *arguments, env={"WATTFOLD_WORKLOADS": ""})
    assert (result.exit_code, len(result.stderr.splitlines())) == (code, 1), result.output
    assert message in result.stderr
    assert result.stdout == ""
