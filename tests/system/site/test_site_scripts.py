"""Job scripts against a real site: directives, standard input, patterns, environment."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def script(folder: Path, *lines: str) -> Path:
    path = folder / "job.sh"
    path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
    return path


def test_a_script_with_directives_of_wattfold(site: LiveSite, tmp_path: Path) -> None:
    script(
        tmp_path,
        "#WATTFOLD --cores 2 --time 10m --name 'my job'  # two cores",
        "#WATTFOLD --output %x-%u-%N-%%-%j --env GREETING=hello",
        "echo $GREETING $1 $OMP_NUM_THREADS",
    )
    job = site.wattfold("submit", "--wait", "job.sh", "you", cwd=tmp_path).stdout.split()[0]
    node = site.job(job).shares[0].node_id if site.job(job).shares else "n0"
    outputs = [path.name for path in tmp_path.iterdir() if path.name.startswith("my job")]
    assert outputs in (
        [f"my job-{getpass.getuser()}-{name}-%-{job}"] for name in {node, "n0", "n1"}
    )
    assert (tmp_path / outputs[0]).read_text() == "hello you 2\n"
    assert site.job(job).spec.limit_ns == 600 * 10**9


def test_a_script_of_slurm(site: LiveSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOBID", "of-another-job")
    script(
        tmp_path,
        "#SBATCH --job-name=md --time=0:10:00 --mail-type=END",
        "#SBATCH -N 1 -n 2 -c 1 -o md-%j.out",
        "echo $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_CPUS_PER_TASK",
        "echo $SLURM_SUBMIT_DIR ${SLURM_JOBID-unset} $WATTFOLD_TASKS >&2",
    )
    done = site.wattfold("submit", "--wait", "./job.sh", cwd=tmp_path)
    job = done.stdout.split()[0]
    assert "this site sends no mail about jobs" in done.stderr
    written = (tmp_path / f"md-{job}.out").read_text()
    assert written == f"{job} md 2 1\n{tmp_path} unset 2\n"


def test_a_script_of_slurm_on_two_nodes_runs_once(
    site: LiveSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As for a user whose shell finds the commands of Wattfold.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    script(
        tmp_path,
        "#SBATCH --nodes=2 --ntasks-per-node=1 --output=out",
        "echo start $SLURM_NTASKS $WATTFOLD_RANKS",
        "for node in ${WATTFOLD_NODES//,/ }; do",
        '  wattfold-rsh $node "echo \\$WATTFOLD_NODE_ID"',
        "done",
    )
    site.wattfold("submit", "--wait", "job.sh", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "start 2 2\nn0\nn1\n"


def test_a_script_from_standard_input(site: LiveSite, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "#WATTFOLD --cores 2 --name piped --output out --restartable --hold",
        "echo $1 $WATTFOLD_ATTEMPT ${WATTFOLD_SCRIPT-unset}",
        "read line || echo no input",
        "[ $WATTFOLD_ATTEMPT = 2 ] || sleep 1000",
    )
    job = site.wattfold("submit", "-", "an argument", cwd=tmp_path, stdin=path).stdout.strip()
    path.unlink()
    spec = site.job(job).spec
    assert (list(spec.argv), spec.name, dict(spec.env)) == (["-", "an argument"], "piped", {})
    shown = site.wattfold("show", "--env", job).stdout
    assert "no input" in shown
    site.wattfold("release", job)
    output = tmp_path / "out"
    wait_until("its output", lambda: output.exists() and "no input" in output.read_text())
    site.wattfold("requeue", job)
    assert site.ended(job).state == pb.JOB_STATE_COMPLETED
    assert output.read_text() == ("an argument 1 unset\nno input\nan argument 2 unset\nno input\n")
    record = site.record.read_text()
    assert job in record
    assert "no input" not in record, "the script may contain secrets"


def test_an_interpreter_that_the_node_lacks_is_named(site: LiveSite, tmp_path: Path) -> None:
    path = tmp_path / "gone"
    path.write_text("#!/no/such/shell\ntrue\n")
    job = site.wattfold("submit", "--no-check", "-", stdin=path).stdout.strip()
    assert "/no/such/shell: No such file" in site.ended(job).message


def test_a_script_keeps_its_bytes(site: LiveSite, tmp_path: Path) -> None:
    path = tmp_path / "latin1"
    path.write_bytes(b"#!/bin/sh\nprintf 'caf\xe9'\n" + b"# filler\n" * 20_000)
    job = site.wattfold("submit", "--wait", "--output", str(tmp_path / "out"), stdin=path)
    assert (tmp_path / "out").read_bytes() == b"caf\xe9", job.stdout
    assert os.stat(path).st_size > 128 * 1024, "more than the kernel takes as one variable"
