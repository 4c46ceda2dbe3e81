"""`run`, `logs`, `signal` and `modify`: command lines, texts and exit codes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.v1 import coordinator_pb2 as pb

S = 10**9


@pytest.fixture
def job(fake: FakeCoordinator, tmp_path: Path) -> pb.Job:
    """A running job with an output file."""
    (tmp_path / "o").write_text("text\n")
    files = pb.JobOutput(node_id="n1", stdout_path=str(tmp_path / "o"), stderr_path="/no/such")
    added = pb.Job(job_id="a", state=pb.JOB_STATE_RUNNING, outputs=[files])
    fake.add(added)
    return added


@pytest.mark.usefixtures("job")
def test_logs_json_lists_the_files(wattfold: Command, tmp_path: Path) -> None:
    (file,) = wattfold.json("logs", "a")["files"]
    assert (file["node_id"], file["rank"]) == ("n1", 0)
    assert file["stdout"] == {"path": str(tmp_path / "o"), "visible": True, "bytes": 5}
    assert file["stderr"] == {"path": "/no/such", "visible": False, "bytes": None}


@pytest.mark.usefixtures("job")
def test_a_file_that_is_not_here_is_named_with_its_node(wattfold: Command) -> None:
    result = wattfold("logs", "--err", "a")
    assert result.exit_code == 1
    assert result.stderr == (
        "wattfold: the output of job a on node n1 is in /no/such, which cannot be read on this "
        "machine (no such file or directory); read it on n1, or submit with --output in a "
        "directory that all machines share\n"
    )


def test_the_output_of_other_accounts_is_not_shown(wattfold: Command, job: pb.Job) -> None:
    job.access, job.user = pb.JOB_ACCESS_OTHER, "ada"
    result = wattfold("logs", "a")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "job a belongs to ada; only ada and operators may read its output" in result.stderr


def test_a_coordinator_that_reports_no_files(wattfold: Command, job: pb.Job) -> None:
    del job.outputs[:]
    job.shares.add(node_id="n1", cpus="0")
    assert "has an earlier version" in wattfold("logs", "a").stderr


def test_run_ends_as_its_job(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.finish_at_once = True
    result = wattfold("run", "--cores", "2", "--wait", "--", "true")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert fake.submissions[-1].spec.size_max == 2
    assert wattfold("--json", "run", "--", "true").exit_code == 2


def test_run_takes_the_options_of_a_script(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#WATTFOLD --cores 3 --wait\n")
    script.chmod(0o755)
    fake.finish_at_once = True
    assert wattfold("run", str(script)).exit_code == 0
    assert fake.submissions[-1].spec.size_max == 3


@pytest.mark.usefixtures("job")
def test_signal_sends_names_and_numbers(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("signal", "a", "KILL").stdout == "a SIGKILL sent on n1\n"
    assert wattfold("signal", "a", "a", "36", "--attempt", "2").stdout == "a signal 36 sent on n1\n"
    sent = [(request.signal, request.attempt) for request in fake.signals]
    assert sent == [(signal.SIGKILL, 0), (36, 2)]
    assert wattfold("signal", "a", "65").exit_code == 2
    assert wattfold("signal", "b", "HUP").exit_code == 4


@pytest.mark.usefixtures("job")
def test_modify_sends_only_what_is_given(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("modify", "a", "--time", "1m").stdout == "a time limit none -> 60 s\n"
    assert fake.modifications == [pb.ModifyJobRequest(job_id="a", limit_ns=60 * S)]
    assert wattfold("modify", "a", "--time", "1m").stdout == "a already has these values\n"
    wattfold("modify", "a", "--time", "none", "--due", "none", "--size", "2-4", "--name", "x")
    assert fake.modifications[-1] == pb.ModifyJobRequest(
        job_id="a", limit_ns=0, due_at_s=0, size_min=2, size_max=4, name="x"
    )
    changes = wattfold.json("modify", "a", "--priority", "0.5")["changes"]
    assert changes == [{"field": "time limit", "before": "none", "after": "60 s"}]
    assert "nothing to change" in wattfold("modify", "a").stderr
    assert wattfold("modify", "a", "--priority", "0").exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("logs", "-f", "1"),
        ("run", "--", "true"),
        ("signal", "1", "INT"),
        ("modify", "1", "--name", "x"),
    ],
)
def test_without_a_coordinator_each_command_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = Command(f"unix:{tmp_path}/none.sock")(*words)
    assert result.exit_code == 3
    assert "no coordinator" in result.stderr
