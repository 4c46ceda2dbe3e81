"""`wattfold simulate`: output, files, checks, several runs, and failures in one line."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.runs.sample_runs import contents
from unit.workloads.swf_files import job, log, real_log

from wattfold.coordinator.cli.shared.exit_codes import ExitCode


@pytest.fixture
def wattfold() -> Command:
    """This command never calls the coordinator, so there is none at this address."""
    return Command("unix:/nonexistent/wattfold.sock")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Job 2 waits for job 1 and job 3 overtakes job 2: starts 0, 100, 20."""
    return log(
        tmp_path,
        "; MaxProcs: 10",
        job(1, 0, f4=100, f5=6, f9=100),
        job(2, 10, f4=50, f5=8, f9=50),
        job(3, 20, f4=30, f5=2, f9=40),
        job(4, 30, f4=0, f5=1, f9=40),
        "5 200 bad",
    )


def starts(folder: Path, *rows: tuple[int, float | str]) -> Path:
    path = folder / "starts.csv"
    path.write_text("job_id,start\n" + "".join(f"{number},{at}\n" for number, at in rows))
    return path


def test_a_log_is_simulated_and_its_odd_rows_are_shown(wattfold: Command, small: Path) -> None:
    result = wattfold("simulate", "--log", str(small), "--nodes=10")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    assert ["jobs", "4"] in lines
    assert ["median", "wait,", "s", "0"] in lines
    assert ["time", "over", "budget,", "s", "0"] in lines
    assert ["column-count", "1", "0", "1", "0", "6"] in [line[:6] for line in lines]
    assert ["zero-run", "1", "1"] in [line[:3] for line in lines]
    assert result.stderr == ""


def test_odd_rows_are_listed(wattfold: Command, small: Path, tmp_path: Path) -> None:
    listed = tmp_path / "odd.csv"
    arguments = ("simulate", "--log", str(small), "--nodes=10", "--odd-rows", str(listed))
    document = wattfold.json(*arguments)
    rows = list(csv.DictReader(listed.read_text().splitlines()))
    assert document["odd_rows"] == len(rows) == 2
    assert [(row["line"], row["rule"], row["outcome"]) for row in rows] == [
        ("6", "column-count", "dropped"),
        ("5", "zero-run", "repaired"),
    ]
    refused = wattfold(*arguments, "--on-odd=fail")
    assert (refused.exit_code, refused.stderr.count("\n")) == (ExitCode.REFUSED, 1)


@pytest.mark.parametrize("packed", [False, True])
def test_check_compares_every_start(
    wattfold: Command, small: Path, tmp_path: Path, packed: bool
) -> None:
    path = starts(tmp_path, (1, 0), (2, 100), (3, "20.0"), (4, 30))
    if packed:
        data = gzip.compress(path.read_bytes())
        path = path.with_suffix(".csv.gz")
        path.write_bytes(data)
    arguments = ("simulate", "--log", str(small), "--nodes=10", "--check", str(path))
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    assert result.output.endswith("easy: 4 of 4 starts agree.\n")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(1, 0), (2, 99), (3, 20), (4, 30)], "3 of 4 starts agree; job 2 starts at 100 s, not 99"),
        ([(1, 0), (2, 100), (3, 20)], "3 of 4 starts agree, 1 are not in the file."),
        (
            [(1, 0), (2, 100), (3, 20), (4, 30), (5, 1)],
            "4 of 4 starts agree, 1 starts of the file are not in the run.",
        ),
    ],
)
def test_a_check_that_fails_has_exit_code_1(
    wattfold: Command, small: Path, tmp_path: Path, rows: list[tuple[int, int]], sentence: str
) -> None:
    arguments = ("simulate", "--log", str(small), "--nodes=10")
    result = wattfold(*arguments, "--check", str(starts(tmp_path, *rows)))
    assert (result.exit_code, result.stderr) == (ExitCode.REFUSED, "")
    assert sentence in result.output
    shown = wattfold(*arguments, "--check", str(starts(tmp_path, *rows)), "--json")
    assert shown.exit_code == ExitCode.REFUSED
    assert not json.loads(shown.stdout)["checks"][0]["agrees"]


def test_every_start_of_a_real_log_agrees(wattfold: Command) -> None:
    path = real_log("kth_sp2.swf.gz")
    root = Path(os.environ["WATTFOLD_WORKLOADS"])
    places = [root / "easy_reference", root.parent / "easy_reference"]
    found = [p / "kth_sp2.csv.gz" for p in places if (p / "kth_sp2.csv.gz").is_file()]
    if not found:
        pytest.skip(f"no reference starts beside {root}")
    result = wattfold("simulate", "--log", str(path), "--nodes=100", "--check", str(found[0]))
    assert result.exit_code == 0, result.output
    assert "28481 of 28481 starts agree" in result.output


# ---- files -------------------------------------------------------------------------------------

MODEL = ("simulate", "--model=poisson", "--jobs=24", "--nodes=16", "--load=1.2", "--idle=20")


def test_every_file_has_the_same_bytes_the_second_time(wattfold: Command, tmp_path: Path) -> None:
    arguments = (*MODEL, "--format=both", "--policy=easy", "--policy=parm-wse", "--seed=3")
    budget = ("--budget=1.2kW", "--cut-sizes")
    for name in ("a", "b"):
        result = wattfold(*arguments, *budget, "--workers=2", "--out", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        assert result.output.endswith(f"Files in {tmp_path / name}, plots: 3\n")
    first = contents(tmp_path / "a")
    runs = ("easy-seed3", "parm-wse-seed3")
    files = ("jobs.csv", "jobs.parquet", "series.csv", "series.parquet", "metrics.json")
    pictures = {"overview.png", "categories-easy.png", "categories-parm-wse.png"}
    assert set(first) == {f"{run}/{file}" for run in runs for file in files} | pictures
    assert first == contents(tmp_path / "b")


def test_two_workers_and_one_at_a_time_leave_the_same_bytes(
    wattfold: Command, tmp_path: Path
) -> None:
    policies = ("easy", "parm-nose")
    plain = (*MODEL, "--no-figures", "--run-times=pass")
    arguments = (*plain, "--seeds=2", *(f"--policy={name}" for name in policies))
    two = wattfold(*arguments, "--workers=2", "--out", str(tmp_path / "two"), "--json")
    one = wattfold(*arguments, "--workers=1", "--out", str(tmp_path / "one"), "--json")
    assert (two.exit_code, one.exit_code) == (0, 0), two.output
    runs = json.loads(two.stdout)["runs"]
    order = [(run["policy"], run["seed"]) for run in runs]
    assert order == [(name, seed) for name in policies for seed in (0, 1)]
    assert all(run["over_budget_s"] == 0 for run in runs)
    alone = tmp_path / "alone"
    for name, seed in order:
        words = (*plain, f"--policy={name}", f"--seed={seed}")
        assert wattfold(*words, "--out", str(alone)).exit_code == 0
    expected = contents(alone)
    assert len(expected) == 3 * len(order)
    assert contents(tmp_path / "two") == contents(tmp_path / "one") == expected


def test_dask_leaves_the_same_bytes(wattfold: Command, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    arguments = (*MODEL, "--no-figures", "--policy=easy", "--policy=parm-wse")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address=None,
    ) as cluster:
        address = cluster.scheduler_address
        there = wattfold(*arguments, "--dask", address, "--out", str(tmp_path / "dask"))
    here = wattfold(*arguments, "--out", str(tmp_path / "here"))
    assert (there.exit_code, here.exit_code) == (0, 0), there.output
    assert contents(tmp_path / "dask") == contents(tmp_path / "here")


def test_of_several_runs_those_that_were_done_are_kept(wattfold: Command, tmp_path: Path) -> None:
    """One of two runs fails. The result of the other run is kept and used by the next command."""
    out = tmp_path / "out"
    arguments = (*MODEL, "--no-figures", "--policy=easy", "--policy=parm-wse", "--out", str(out))
    out.mkdir()
    (out / "parm-wse-seed0").touch()
    failed = wattfold(*arguments)
    assert (failed.exit_code, failed.stderr.count("\n")) == (ExitCode.REFUSED, 1)
    assert "1 of 2 runs failed: parm-wse-seed0" in failed.stderr
    (out / "parm-wse-seed0").unlink()
    kept = (out / "easy-seed0" / "jobs.csv").stat().st_mtime_ns
    assert (out / "easy-seed0" / "outcome").exists()
    result = wattfold(*arguments, "--resume", "--json")
    assert result.exit_code == 0, result.output
    assert [run["policy"] for run in json.loads(result.stdout)["runs"]] == ["easy", "parm-wse"]
    assert (out / "easy-seed0" / "jobs.csv").stat().st_mtime_ns == kept
    assert not list(out.rglob("outcome"))


# ---- budgets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["drop.csv", "night"])
def test_a_budget_that_drops_is_kept(wattfold: Command, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("time_s,budget_w,deadline_s\n0,1856,\n600,1500,30\n3000,1856,\n")
    arguments = (*MODEL, "--no-figures", "--cut-sizes", "--policy=easy", "--policy=parm-wse")
    out = tmp_path / "out"
    document = wattfold.json(*arguments, "--budget", str(path), "--out", str(out))
    assert [run["over_budget_s"] for run in document["runs"]] == [0, 0]
    for policy in ("easy", "parm-wse"):
        text = (out / f"{policy}-seed0" / "series.csv").read_text()
        rows = list(csv.DictReader(text.splitlines()))
        assert {float(row["budget_w"]) for row in rows} == {1856.0, 1500.0}
        assert all(float(row["committed_w"]) <= float(row["budget_w"]) for row in rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_s,budget_w\n0,900\n,800\n", "line 3: not a time and a power"),
        ("time_s,budget_w\n0,900\n5,nan\n", "line 3: not a time and a power"),
        ("time_s,budget_w\n0,900\n5,-1\n", "above zero"),
        ("time_s,budget_w\n0,900\n9,800\n5,700\n", "ascend in time"),
        ("time_s,budget_w\n10,900\n", "begin at 0"),
        ("time_s,budget_w\n", "begin at 0"),
        ("seconds,watts\n0,900\n", "expected the columns time_s,budget_w"),
        ("", "expected the columns time_s,budget_w"),
        ("time_s,budget_w\n0,100\n", "leaves no power for jobs: 16 idle nodes"),
    ],
)
def test_a_bad_budget_file_is_one_line(
    wattfold: Command, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "budget.csv"
    path.write_text(text)
    result = wattfold(*MODEL, "--budget", str(path))
    assert (result.exit_code, len(result.stderr.splitlines())) == (ExitCode.USAGE, 1)
    assert message in result.stderr


# ---- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--log none.swf", ExitCode.REFUSED, "none.swf: cannot be read: No such file"),
        ("--log .", ExitCode.REFUSED, "cannot be read: Is a directory"),
        ("--log cut.gz", ExitCode.REFUSED, "broken gzip data"),
        ("--log empty", ExitCode.USAGE, "empty: the log has no jobs"),
        ("--log binary", ExitCode.REFUSED, "is no text, so it is not a workload log"),
        ("", ExitCode.USAGE, "give exactly one of --log, --model and --training"),
        (
            "--log SMALL --model lublin",
            ExitCode.USAGE,
            "give exactly one of --log, --model and --training",
        ),
        ("--log SMALL --nodes 3", ExitCode.USAGE, "the first is job 1 with 6"),
        ("--log SMALL --nodes 0", ExitCode.USAGE, "not in the range"),
        ("--log SMALL --nodes 1000000000000", ExitCode.USAGE, "not in the range"),
        ("--log SMALL --gamma nan", ExitCode.USAGE, "not a finite number"),
        ("--log SMALL --predict mean", ExitCode.USAGE, "is not one of 'user', 'last-two'"),
        ("--log SMALL --policy parm-wse --predict last-two", ExitCode.USAGE, "omit --predict"),
        ("--log SMALL --gamma 1e300", ExitCode.USAGE, "goes no further"),
        ("--log SMALL --first 9", ExitCode.USAGE, "the selection of jobs of "),
        ("--log SMALL --seeds 2", ExitCode.USAGE, "every run would be the same"),
        ("--log SMALL --budget x", ExitCode.USAGE, "neither a power nor a file"),
        ("--log SMALL --budget none.csv", ExitCode.USAGE, "none.csv: cannot be read"),
        ("--log SMALL --budget binary", ExitCode.USAGE, "binary"),
        ("--log SMALL --budget 10", ExitCode.USAGE, "leaves no power for jobs"),
        ("--log SMALL --budget 900", ExitCode.USAGE, "2 nodes that the budget can power at 60 W"),
        (
            "--log SMALL --policy parm-wse --caps 10,30",
            ExitCode.USAGE,
            "a cap of 10 W is outside 25 to 60 W",
        ),
        ("--log SMALL --cap 61", ExitCode.USAGE, "a cap of 61 W is outside 25 to 60 W"),
        ("--log SMALL --idle 200", ExitCode.USAGE, "an idle node must draw between 0 W and"),
        ("--log SMALL --torus 2x4", ExitCode.USAGE, "8 places, too few for 10 nodes"),
        ("--log SMALL --placement cuboid", ExitCode.USAGE, "add --torus"),
        ("--log SMALL --torus 4xx", ExitCode.USAGE, "not the dimensions of a torus"),
        (
            "--log SMALL --resume",
            ExitCode.USAGE,
            "--resume needs the folder of the stopped run; add --out DIR",
        ),
        ("--log SMALL --out empty", ExitCode.REFUSED, "cannot be used: Not a directory"),
        ("--log SMALL --annotations nan.csv", ExitCode.REFUSED, "expected the columns"),
        ("--log SMALL --odd-rows none/x", ExitCode.REFUSED, "none/x: cannot be written"),
        ("--log SMALL --check none", ExitCode.USAGE, "none: cannot be read"),
        ("--log SMALL --check .", ExitCode.USAGE, "cannot be read: Is a directory"),
        ("--log SMALL --check cut.gz", ExitCode.USAGE, "broken gzip data"),
        ("--log SMALL --check nan.csv", ExitCode.USAGE, "line 2: not an ID and a start"),
        ("--log SMALL --check SMALL", ExitCode.USAGE, "expected the columns job_id,start"),
        ("--log SMALL --dask tcp://x:1", ExitCode.USAGE, "--out DIR"),
        ("--log none.swf --policy easy --policy fcfs", ExitCode.REFUSED, "none.swf: cannot be"),
        ("--model poisson --load 0", ExitCode.USAGE, "not in the range"),
        ("--model lublin --nodes 1", ExitCode.USAGE, "at least 2 processors"),
        ("--model poisson --policy parm-wse --alpha nan", ExitCode.USAGE, "not a finite number"),
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
    packed = gzip.compress(os.urandom(4000), mtime=0)
    Path("cut.gz").write_bytes(packed[: len(packed) // 2])
    Path("empty").touch()
    Path("binary").write_bytes(bytes(range(256)) * 20)
    Path("nan.csv").write_text("job_id,start\n1,nan\n")
    arguments = [str(small) if word == "SMALL" else word for word in words.split()]
    if "--nodes" not in words:
        arguments.append("--nodes=10")
    result = wattfold("simulate", *arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (code, 1), result.output
    assert message in result.stderr
    assert result.stdout == ""


def test_a_failure_leaves_no_folder(wattfold: Command, tmp_path: Path) -> None:
    for policies in (["--policy=easy"], ["--policy=easy", "--policy=fcfs"]):
        out = tmp_path / "out"
        result = wattfold("simulate", "--log=none", "--nodes=4", *policies, "--out", str(out))
        assert result.exit_code == ExitCode.REFUSED
        assert not [path for path in out.rglob("*") if path.is_file()]


# ---- machines of several classes -----------------------------------------------------------------


MACHINE_FILE = """
[[class]]
name = "large"
nodes = 4
cores = 4

[[class]]
name = "small"
nodes = 2
cores = 2
"""


def test_jobs_share_the_nodes_of_a_machine_file(wattfold: Command, small: Path) -> None:
    """Six processors are two nodes of four; jobs 3 and 4 use the remaining cores of these nodes."""
    path = small.parent / "machine.toml"
    path.write_text(MACHINE_FILE)
    arguments = ["--log", str(small), "--machine", str(path), "--procs-per-node=4", "--share-nodes"]
    out = small.parent / "out"
    result = wattfold("simulate", *arguments, "--out", str(out), "--no-figures", "--json")
    assert result.exit_code == 0, result.output
    with (out / "easy-seed0" / "jobs.csv").open(newline="") as file:
        rows = {row["job_id"]: row for row in csv.DictReader(file)}
    assert [rows[n]["cores_first"] for n in "134"] == ["8", "2", "1"]
    assert rows["2"]["start_s"] == "10"


WINDOW = """
[[window]]
class = "large"
start_s = 60
end_s = 80
"""


def test_windows_and_limits_are_in_table_and_files(wattfold: Command, small: Path) -> None:
    """Job 2 would run into the window; job 1 requested less than it takes."""
    path = small.parent / "machine.toml"
    path.write_text(MACHINE_FILE + WINDOW)
    rows = [job(1, 0, f4=70, f5=16, f9=50), job(2, 1, f4=30, f5=12, f9=30)]
    late = log(small.parent, *rows, name="late.swf")
    arguments = ["--log", str(late), "--machine", str(path), "--procs-per-node=4", "--end-at-limit"]
    out = small.parent / "out"
    given = ["--snapshots=50s", "--restart-cost=5s", "--out", str(out), "--no-figures"]
    result = wattfold("simulate", *arguments, *given, "--json")
    assert result.exit_code == 0, result.output
    with (out / "easy-seed0" / "jobs.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["attempts"], first["wasted_s"], first["timed_out"]) == ("1", "0", "1")
    assert (first["end_s"], second["start_s"], second["timed_out"]) == ("50", "80", "0")
    assert json.loads(result.stdout)["runs"][0]["jobs_timed_out"] == 1
    shown = wattfold("simulate", *arguments)
    assert "ended by limits" in shown.stdout
    assert "preemptions" not in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--nodes=3 --snapshots=end", "--snapshots needs --machine FILE"),
        ("--machine M --snapshots=0s", "Invalid value for '--snapshots'"),
        ("--nodes=20 --level messages --end-at-limit", "--end-at-limit is for the pool"),
        ("--nodes=3 --machine M", "--nodes applies to identical nodes"),
        ("--idle=3 --machine M", "--idle applies to identical nodes"),
        ("--nodes=3 --share-nodes", "--share-nodes needs --machine FILE"),
        ("--nodes=3 --requests M", "--requests needs --machine FILE"),
        ("", "either --nodes N or --machine FILE"),
        ("--machine M --level messages", "easy needs identical counted nodes"),
        ("--machine M --budget 400W", "leaves no power for jobs"),
    ],
)
def test_what_does_not_go_with_a_machine_file(
    wattfold: Command, small: Path, words: str, said: str
) -> None:
    path = small.parent / "machine.toml"
    path.write_text(MACHINE_FILE)
    given = [str(path) if word == "M" else word for word in words.split()]
    result = wattfold("simulate", "--log", str(small), *given)
    assert result.exit_code != 0
    assert said in result.stderr, result.stderr
    assert len(result.stderr.splitlines()) == 1


# ---- terminal output ----------------------------------------------------------------------------


def test_tables_fit_80_columns_where_they_are_asked_to(wattfold: Command) -> None:
    policies = [f"--policy={name}" for name in ("easy", "conservative", "fcfs")]
    result = wattfold(*MODEL, *policies, "--seeds=2", env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "\x1b" not in result.output


def test_json_has_every_figure_and_nothing_else(wattfold: Command) -> None:
    result = wattfold(*MODEL, "--json")
    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert {"runs", "odd_rows", "checks", "folder", "figures"} == set(document)
    [run] = document["runs"]
    assert (run["policy"], run["seed"], run["jobs"], run["jobs_unfinished"]) == ("easy", 0, 24, 0)
    assert run["over_budget_s"] == 0


def test_restarts_are_of_both_levels(wattfold: Command, small: Path) -> None:
    words = ("simulate", "--log", str(small), "--nodes=10", "--restarts")
    refused = wattfold(*words, "30s,45s")
    assert refused.exit_code == ExitCode.USAGE
    assert "--restarts with --level pool applies to PARM only, not to easy" in refused.stderr
    both = wattfold(*words, "30s,45s", "--policy=parm-wse", "--free-resizes")
    assert both.exit_code == ExitCode.USAGE
    assert "--free-resizes cannot be combined with --restarts" in both.stderr
    odd = wattfold(*words, "30s", "--level", "messages")
    assert odd.exit_code == 2
    assert "give SAVE,START" in odd.stderr
    done = wattfold(*words, "30s,45s", "--level", "messages")
    assert done.exit_code == 0, done.stderr


def test_in_a_pool_a_resize_costs_what_its_restart_takes(wattfold: Command, tmp_path: Path) -> None:
    jobs = ("--model=lublin", "--jobs=60", "--nodes=16", "--idle=20", "--policy=parm-wse")
    out = ("--no-figures", "--out", str(tmp_path))
    assert wattfold("simulate", *jobs, "--restarts=2s,3s", *out).exit_code == 0
    rows = list(csv.DictReader((tmp_path / "parm-wse-seed0" / "jobs.csv").open()))
    assert any(int(row["resizes"]) for row in rows)
    assert all(float(row["stalled_s"]) == 5 * int(row["resizes"]) for row in rows)


def test_each_policy_is_run_with_each_predictor(wattfold: Command, small: Path) -> None:
    predict = ("--predict", "user", "--predict", "last-two", "--predict", "user")
    policies = ("--policy", "easy", "--policy", "fcfs")
    result = wattfold(
        *("simulate", "--log", str(small), "--nodes", "10", *policies, *predict, "--json")
    )
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [run["policy"] for run in runs] == ["easy", "easy+last-two", "fcfs", "fcfs+last-two"]


@pytest.mark.parametrize("policy", ["easy", "slowdown-driven"])
def test_limited_passes_are_for_pools_that_count(
    wattfold: Command, small: Path, policy: str
) -> None:
    base = ["simulate", "--log", str(small), "--nodes", "10", "--policy", policy]
    family = "fifo" if policy == "easy" else policy
    result = wattfold(*base, "--set", f"{family}.every=23", "--set", f"{family}.looked=5")
    assert result.exit_code == 0, result.output
    result = wattfold(*base, "--level", "messages", "--set", f"{family}.every=23")
    assert result.exit_code != 0
    assert "not at the level of messages" in result.output


def test_a_pass_at_the_end_of_its_interval_lets_a_job_past_the_first(
    wattfold: Command, small: Path
) -> None:
    base = ["simulate", "--log", str(small), "--nodes", "10", "--policy", "easy"]
    at_once = wattfold.json(*base)
    later = wattfold.json(*base, "--set", "fifo.every=50")
    assert later["runs"][0]["wait_s_mean"] > at_once["runs"][0]["wait_s_mean"]
    checked = wattfold.json(*base[:-1], "slowdown-driven", "--set", "slowdown-driven.check=yes")
    assert checked["runs"][0]["jobs_unfinished"] == 0
