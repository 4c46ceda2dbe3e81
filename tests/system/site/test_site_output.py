"""`run`, `logs` and `signal`: the output of jobs and signals to them, on a real site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import DEADLINE_S, LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

WAITS = 'while [ ! -e "$0" ]; do sleep 0.05; done'
"""Shell text that waits for the file in its first argument."""


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy")


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    for job in shared.client.list_jobs().jobs:
        shared.client.cancel(job.job_id, force=True)
    wait_until("no jobs left", lambda: not shared.client.list_jobs().jobs)


class Running:
    """A `wattfold` command in the background, with its output in files."""

    def __init__(self, site: LiveSite, folder: Path, *arguments: str) -> None:
        self.out, self.err = folder / "command.out", folder / "command.err"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WATTFOLD_")}
        command = str(Path(sys.executable).with_name("wattfold"))
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [command, "--coordinator", site.address, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=site.work,
                env=environment,
            )

    def until(self, text: str, error: bool = False) -> None:
        path = self.err if error else self.out
        wait_until(f"{text!r} in {path.name}", lambda: text in path.read_text())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        code = self.process.wait(DEADLINE_S)
        assert "Traceback" not in self.err.read_text()
        return code


def only_job(site: LiveSite) -> str:
    def found() -> str:
        jobs = site.client.list_jobs().jobs
        return jobs[0].job_id if jobs else ""

    return wait_until("a job", found)


# logs


def test_logs_of_a_job_that_has_ended(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sh", "-c", "echo out; echo error >&2"])
    site.ended(job_id)
    assert site.wattfold("logs", job_id).stdout == "out\n"
    assert site.wattfold("logs", "--err", job_id).stdout == "error\n"
    assert site.wattfold("logs", "-f", job_id).stdout == "out\n"
    (file,) = json.loads(site.wattfold("logs", "--json", job_id).stdout)["files"]
    path = site.work / f"wattfold-{job_id}.out"
    assert file["stdout"] == {"path": str(path), "visible": True, "bytes": 4}
    path.unlink()
    gone = site.wattfold("logs", job_id, check=1).stderr
    assert f"on node {file['node_id']} is in {path}" in gone
    assert "submit with --output in a directory" in gone


def test_logs_follow_a_job_from_before_its_start_to_its_end(site: LiveSite, tmp_path: Path) -> None:
    goal = tmp_path / "goal"
    line = f"echo first; {WAITS}; echo last"
    job_id = site.submit(["/bin/sh", "-c", line, str(goal)], held=True)
    early = site.wattfold("logs", job_id, check=1).stderr
    assert f"wait for it with `wattfold logs -f {job_id}`" in early
    command = Running(site, tmp_path, "logs", "-f", job_id)
    command.until("held", error=True)
    site.client.release(job_id)
    command.until("first\n")
    goal.touch()
    assert command.end() == 0
    assert command.out.read_text() == "first\nlast\n"
    assert f"{job_id} completed on n" in command.err.read_text()


def test_logs_follow_a_truncated_and_a_replaced_file(site: LiveSite, tmp_path: Path) -> None:
    goal, path = tmp_path / "goal", site.work / "cut.out"
    line = f"echo a long first line; {WAITS}; echo end"
    job_id = site.submit(["/bin/sh", "-c", line, str(goal)], stdout_path="cut.out")
    command = Running(site, tmp_path, "logs", "-f", job_id)
    command.until("a long first line\n")
    os.truncate(path, 0)
    command.until("cut.out was truncated", error=True)
    path.rename(tmp_path / "moved")
    path.write_text("new file\n")
    command.until("new file\n")
    goal.touch()
    assert command.end() == 0


def test_logs_of_several_ranks_name_each_file(site: LiveSite) -> None:
    job_id = site.submit(
        ["/bin/sh", "-c", "echo on $WATTFOLD_RANK"],
        unit=pb.SIZE_UNIT_NODES,
        size_min=2,
        size_max=2,
        stdout_path="ranks-%j",
    )
    site.ended(job_id)
    both = site.wattfold("logs", job_id)
    assert both.stdout == "on 0\non 1\n"
    named = [f"wattfold: rank {n} on n{n}: {site.work}/ranks-{job_id}.{n}" for n in (0, 1)]
    assert both.stderr.splitlines() == named
    one = site.wattfold("logs", "--rank", "1", job_id)
    assert (one.stdout, one.stderr) == ("on 1\n", "")
    assert (
        "has no rank 2; it has 0..1" in site.wattfold("logs", "--rank", "2", job_id, check=1).stderr
    )


def test_logs_follow_a_requeued_job_into_its_next_attempt(site: LiveSite, tmp_path: Path) -> None:
    goal = tmp_path / "goal"
    line = f'echo attempt "$WATTFOLD_ATTEMPT"; {WAITS}'
    job_id = site.submit(["/bin/sh", "-c", line, str(goal)], restartable=True)
    command = Running(site, tmp_path, "logs", "-f", job_id)
    command.until("attempt 1\n")
    site.wattfold("requeue", job_id)
    command.until("attempt 2\n")
    goal.touch()
    assert command.end() == 0
    assert command.out.read_text() == "attempt 1\nattempt 2\n"


def test_logs_without_a_file_to_show(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sh", "-c", "echo lost"], stdout_path="/dev/null")
    site.ended(job_id)
    assert "not a regular file" in site.wattfold("logs", job_id, check=1).stderr
    assert "no job '999'" in site.wattfold("logs", "999", check=4).stderr
    held = site.submit(["/bin/true"], held=True)
    site.client.cancel(held)
    assert "never ran" in site.wattfold("logs", "-f", held, check=1).stderr
    assert "cannot follow" in site.wattfold("logs", "-f", "--json", held, check=2).stderr


# run


def test_run_shows_both_streams_and_ends_as_its_job(site: LiveSite) -> None:
    line = "echo to out; echo to err >&2; exit 7"
    done = site.wattfold("run", "--", "/bin/sh", "-c", line, check=7)
    assert done.stdout == "to out\n"
    assert done.stderr.startswith("to err\nwattfold: job ")
    assert "with exit code 7" in done.stderr
    quiet = site.wattfold("run", "--output", "one", "--error", "one", "--", "echo", "hello")
    assert (quiet.stdout, quiet.stderr) == ("hello\n", "")
    killed = site.wattfold("run", "--", "/bin/sh", "-c", "kill -TERM $$", check=None)
    assert killed.returncode == 128 + signal.SIGTERM


def test_run_says_why_its_job_waits(site: LiveSite, tmp_path: Path) -> None:
    command = Running(site, tmp_path, "run", "--hold", "--", "echo", "done")
    job_id = only_job(site)
    command.until(f"wattfold: job {job_id}: held", error=True)
    site.client.release(job_id)
    assert command.end() == 0
    assert command.out.read_text() == "done\n"


def test_the_first_interrupt_reaches_the_program(site: LiveSite, tmp_path: Path) -> None:
    line = 'trap "echo caught; exit 3" INT; echo ready; while :; do sleep 0.05; done'
    command = Running(site, tmp_path, "run", "--", "/bin/sh", "-c", line)
    command.until("ready\n")
    job_id = only_job(site)
    command.interrupt()
    assert command.end() == 3
    assert command.out.read_text() == "ready\ncaught\n"
    assert "SIGINT sent" in command.err.read_text()
    assert site.job(job_id).state == pb.JOB_STATE_FAILED


def test_the_second_interrupt_cancels_the_job(site: LiveSite, tmp_path: Path) -> None:
    line = 'trap "" INT; echo ready; while :; do sleep 0.05; done'
    command = Running(site, tmp_path, "run", "--", "/bin/sh", "-c", line)
    command.until("ready\n")
    job_id = only_job(site)
    command.interrupt()
    command.until("SIGINT sent", error=True)
    command.interrupt()
    assert command.end() == 130
    assert site.job(job_id).state == pb.JOB_STATE_CANCELLED


def test_the_third_interrupt_leaves_the_job(site: LiveSite, tmp_path: Path) -> None:
    line = 'trap "" INT TERM; echo ready; while :; do sleep 0.05; done'
    command = Running(site, tmp_path, "run", "--", "/bin/sh", "-c", line)
    command.until("ready\n")
    for text in ("SIGINT sent", "cancelling", "detached"):
        command.interrupt()
        command.until(text, error=True)
    assert command.end() == 130


def test_an_interrupt_while_the_job_waits_cancels_it(site: LiveSite, tmp_path: Path) -> None:
    command = Running(site, tmp_path, "run", "--hold", "--", "echo", "never")
    job_id = only_job(site)
    command.until("held", error=True)
    command.interrupt()
    assert command.end() == 130
    assert site.job(job_id).state == pb.JOB_STATE_CANCELLED
    assert command.out.read_text() == ""


# attach


def test_attach_shows_a_job_from_its_beginning_and_ends_as_it_does(
    site: LiveSite, tmp_path: Path
) -> None:
    line = 'trap "echo caught; exit 3" INT; echo ready; while :; do sleep 0.05; done'
    job_id = site.submit(["/bin/sh", "-c", line])
    path = site.work / f"wattfold-{job_id}.out"
    wait_until("output", lambda: path.exists() and path.read_text())
    command = Running(site, tmp_path, "attach", job_id)
    command.until("ready\n")
    command.interrupt()
    assert command.end() == 3
    assert command.out.read_text() == "ready\ncaught\n"
    assert "SIGINT sent" in command.err.read_text()
    later = site.wattfold("attach", job_id, check=3)
    assert later.stdout == "ready\ncaught\n"
    assert "with exit code 3" in later.stderr


def test_attach_waits_for_the_start_of_a_job(site: LiveSite, tmp_path: Path) -> None:
    job_id = site.submit(["/bin/echo", "hello"], held=True)
    command = Running(site, tmp_path, "attach", job_id)
    command.until(f"wattfold: job {job_id}: held", error=True)
    site.client.release(job_id)
    assert command.end() == 0
    assert command.out.read_text() == "hello\n"


def test_attach_refuses_what_it_cannot_show(site: LiveSite) -> None:
    assert "no job '999'" in site.wattfold("attach", "999", check=4).stderr
    assert "use `wattfold wait --json`" in site.wattfold("attach", "--json", "1", check=2).stderr


# signal


def test_a_signal_reaches_the_processes_of_a_job(site: LiveSite, tmp_path: Path) -> None:
    goal = tmp_path / "goal"
    line = f'trap "echo told" USR1; trap "echo asked" TERM; echo ready; {WAITS}'
    job_id = site.submit(["/bin/sh", "-c", line, str(goal)])
    path = site.work / f"wattfold-{job_id}.out"
    wait_until("ready", lambda: path.exists() and "ready" in path.read_text())
    assert site.wattfold("signal", job_id, "usr1").stdout.startswith(f"{job_id} SIGUSR1 sent on n")
    wait_until("the signal", lambda: "told" in path.read_text())
    # SIGTERM does not end the job after its grace time, and the job can still be suspended.
    site.wattfold("signal", job_id, "15", "--attempt", "1")
    wait_until("the signal", lambda: "asked" in path.read_text())
    site.client.suspend(job_id)
    site.client.resume(job_id)
    late = site.wattfold("signal", job_id, "USR1", "--attempt", "2", check=1).stderr
    assert "it is at attempt 1, not 2" in late
    goal.touch()
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
    ended = site.wattfold("signal", job_id, "USR1", check=1).stderr
    assert "it has ended: it is completed" in ended
    assert "not a signal" in site.wattfold("signal", job_id, "NONSENSE", check=2).stderr
    entries = json.loads(site.wattfold("audit", "--json", "--action", "SignalJob").stdout)
    assert "signal=10" in json.dumps(entries)


def test_a_signal_to_a_silent_node_is_refused_with_the_reason(
    site: LiveSite, tmp_path: Path
) -> None:
    goal = tmp_path / "goal"
    job_id = site.submit(["/bin/sh", "-c", f"echo here; {WAITS}", str(goal)])
    index = int(site.running(job_id).shares[0].node_id.removeprefix("n"))
    path = site.work / f"wattfold-{job_id}.out"
    wait_until("output", lambda: path.exists() and path.read_text())
    site.kill_agent(index)
    wait_until("silence", lambda: site.node(index).state != pb.NODE_STATE_UP)
    try:
        refused = site.wattfold("signal", job_id, "USR1", check=1).stderr
        assert f"was not signalled on n{index}: no agent answers" in refused
        assert site.wattfold("logs", job_id).stdout == "here\n"
    finally:
        site.start_agent(index)
    goal.touch()
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED


# modify


def test_changes_hold_over_a_restart_of_the_coordinator(site: LiveSite, tmp_path: Path) -> None:
    goal = tmp_path / "goal"
    argv = ["/bin/sh", "-c", WAITS, str(goal)]
    job_id = site.submit(argv, held=True, limit_ns=3600 * 10**9, size_max=1)
    done = site.wattfold("modify", job_id, "--time", "2h", "--size", "2", "--name", "renamed")
    assert done.stdout.splitlines() == [
        f"{job_id} name sh -> renamed",
        f"{job_id} time limit 3600 s -> 7200 s",
        f"{job_id} size 1-1 -> 2-2",
    ]
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    job = site.job(job_id)
    assert (job.spec.name, job.spec.limit_ns, job.spec.size_max) == ("renamed", 7200 * 10**9, 2)
    site.client.release(job_id)
    assert site.running(job_id).size == 2
    late = site.wattfold("modify", job_id, "--size", "1", check=1).stderr
    assert "the sizes of a running job are fixed" in late
    audit = site.wattfold("audit", "--action", "ModifyJob").stdout
    assert "limit_s=7200" in audit
    goal.touch()
    site.ended(job_id)


def test_a_shorter_limit_ends_a_running_job(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sleep", "1000"])
    site.running(job_id)
    site.wattfold("modify", job_id, "--time", "3s")
    assert site.ended(job_id).state == pb.JOB_STATE_TIMED_OUT
