"""`wattfold shell`: shells in running jobs of a real site, on a real terminal and with pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.own_terminal import Terminal
from system.site.live_site import (
    DEADLINE_S,
    MARK,
    LiveSite,
    thread_masks,
    wait_pid_gone,
    wait_until,
)

from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

SLEEPS = ["/bin/sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.05; done; exit 5']
"""A command that waits for the file in its first argument."""


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", cpu_share=1.0)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def _zombies(site: LiveSite) -> list[int]:
    """Return the ended children of the agents that nobody has collected."""
    agents = {site.agent(index).pid for index in range(2)}
    stats = [procfs.read_stat(int(path.name)) for path in Path("/proc").glob("[0-9]*")]
    return [one.pid for one in stats if one and one.state == "Z" and one.parent in agents]


def job(site: LiveSite, gate: Path, **spec: object) -> str:
    env = {"PATH": os.environ["PATH"], MARK: str(site.folder), "COLOUR": "blue"}
    job_id = site.submit([*SLEEPS, str(gate)], env=env, **spec)
    site.running(job_id)
    return job_id


def command(site: LiveSite, *arguments: str) -> list[str]:
    program = str(Path(sys.executable).with_name("wattfold"))
    return [program, "--coordinator", site.address, "shell", *arguments]


@pytest.fixture
def terminal(site: LiveSite, tmp_path: Path) -> Iterator[tuple[Terminal, str]]:
    """A shell in a running job, ready for commands."""
    job_id = job(site, tmp_path / "gate")
    made = Terminal(command(site, job_id), columns=91, rows=33)
    # The text differs from the keys, which the terminal echoes.
    made.write("echo rea''dy\n")
    made.read_until("ready")
    made.shown = b""
    made.write("PS1=pro''mpt:; stty -echo\n")
    made.read_until("prompt:")
    yield made, job_id
    made.close()


def test_a_command_runs_with_environment_folder_and_mask_of_the_job(
    site: LiveSite, tmp_path: Path
) -> None:
    job_id = job(site, tmp_path / "gate")
    told = "echo $WATTFOLD_JOB_ID $COLOUR; pwd; grep Cpus_allowed_list /proc/self/status; id -u"
    done = site.wattfold("shell", job_id, "--", "sh", "-c", f"{told}; exit 7", check=7)
    mask = str(next(iter(thread_masks(site.pid(job_id)).values())))
    assert done.stdout.split() == [
        job_id,
        "blue",
        str(site.work),
        "Cpus_allowed_list:",
        mask,
        str(os.geteuid()),
    ]
    assert done.stderr == ""


def test_input_and_output_are_pipes_without_a_terminal(site: LiveSite, tmp_path: Path) -> None:
    job_id = job(site, tmp_path / "gate")
    text = tmp_path / "text"
    text.write_bytes(b"a\0b\x04c" * 100_000)
    done = subprocess.run(
        command(site, job_id, "--", "sh", "-c", "cat; echo error >&2; tty"),
        stdin=text.open("rb"),
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.stdout == text.read_bytes() + b"not a tty\n"
    assert (done.returncode, done.stderr) == (1, b"error\n")


def test_the_script_of_a_shell_comes_from_its_input(site: LiveSite, tmp_path: Path) -> None:
    job_id = job(site, tmp_path / "gate")
    script = tmp_path / "script"
    script.write_text("echo in $WATTFOLD_JOB_ID\nexit 3\n")
    assert site.wattfold("shell", job_id, check=3, stdin=script).stdout == f"in {job_id}\n"


def test_a_terminal_has_the_size_of_the_window_and_follows_it(
    terminal: tuple[Terminal, str],
) -> None:
    shell, _ = terminal
    shell.write("stty size | tr ' ' x\n")
    shell.read_until("33x91")
    shell.resize(columns=120, rows=40)
    shell.write("while ! stty size | tr ' ' x | grep 40x''120; do :; done\n")
    shell.read_until("40x120")
    shell.write("exit 9\n")
    assert shell.end() == 9
    assert termios.tcgetattr(shell.slave) == shell.before, "the terminal is as it was"


def test_ctrl_c_ends_the_command_and_not_the_shell(terminal: tuple[Terminal, str]) -> None:
    shell, _ = terminal
    shell.write("sh -c 'echo wai''ts; exec sleep 1000'\n")
    shell.read_until("waits")
    shell.write("\x03")
    shell.write("echo status $?\n")
    shell.read_until("status 130")


def test_ctrl_z_stops_a_command_that_fg_continues(terminal: tuple[Terminal, str]) -> None:
    shell, _ = terminal
    shell.write("sh -c 'echo wai''ts; exec tr a-z A-Z'\n")
    shell.read_until("waits")
    shell.write("\x1a")
    shell.read_until("Stopped")
    shell.write("fg\n")
    shell.read_until("exec tr")
    shell.write("text\n\x04")
    shell.read_until("TEXT")


def test_ctrl_d_ends_the_shell_with_the_status_of_its_last_command(
    terminal: tuple[Terminal, str],
) -> None:
    shell, _ = terminal
    shell.shown = b""
    shell.write("sh -c 'exit 6'\n")
    shell.read_until("prompt:")
    shell.write("\x04")
    assert shell.end() == 6


def test_a_shell_ends_with_its_job(
    site: LiveSite, terminal: tuple[Terminal, str], tmp_path: Path
) -> None:
    shell, job_id = terminal
    shell.write("echo pid=$$; sleep 1000 & trap '' HUP TERM; sleep 1000\n")
    shell.read_until("pid=")
    (tmp_path / "gate").touch()
    ended = site.ended(job_id)
    assert (ended.state, ended.exit_code) == (pb.JOB_STATE_FAILED, 5), "the status of its program"
    assert shell.end() == 255
    assert f"job {job_id}: the connection to n".encode() in shell.shown
    assert termios.tcgetattr(shell.slave) == shell.before
    wait_until("no shell", lambda: not _in_job(site, job_id))
    wait_until("the agents have collected the keepers", lambda: not _zombies(site))


def test_a_job_that_is_cancelled_takes_its_shell_along(
    site: LiveSite, terminal: tuple[Terminal, str]
) -> None:
    shell, job_id = terminal
    site.client.cancel(job_id)
    assert site.ended(job_id).state == pb.JOB_STATE_CANCELLED
    assert shell.end() == 255
    wait_until("no shell", lambda: not _in_job(site, job_id))


def test_a_terminal_that_is_closed_ends_its_shell_and_not_the_job(
    site: LiveSite, terminal: tuple[Terminal, str]
) -> None:
    shell, job_id = terminal
    shell.write("sleep 12345\n")
    (sleeper,) = wait_until("the command", lambda: _commands(site, "12345"))
    shell.process.send_signal(signal.SIGTERM)
    assert shell.end() == 255
    assert termios.tcgetattr(shell.slave) == shell.before
    wait_pid_gone(sleeper)
    assert site.job(job_id).state == pb.JOB_STATE_RUNNING


def test_a_command_that_ignores_the_end_of_its_connection_is_killed(
    site: LiveSite, tmp_path: Path
) -> None:
    job_id = job(site, tmp_path / "gate")
    stubborn = "trap '' HUP TERM; echo up; while :; do sleep 54321; done"
    client = subprocess.Popen(
        command(site, job_id, "--", "sh", "-c", stubborn), stdout=subprocess.PIPE
    )
    assert client.stdout is not None
    with client:
        assert client.stdout.readline() == b"up\n"
        pids = wait_until("the command", lambda: _commands(site, "54321"))
        client.kill()
    for pid in pids:
        wait_pid_gone(pid)


def test_the_work_of_a_shell_counts_as_that_of_the_job(site: LiveSite, tmp_path: Path) -> None:
    job_id = job(site, tmp_path / "gate")
    before_ns = site.job(job_id).cpu_ns
    loop = "import time\nwhile time.process_time() < 1: pass"
    site.wattfold("shell", job_id, "--", sys.executable, "-c", loop)
    wait_until("a second more", lambda: site.job(job_id).cpu_ns > before_ns + 9e8)
    (tmp_path / "gate").touch()
    ended = site.ended(job_id)
    assert ended.cpu_ns > before_ns + 9e8
    assert ended.energy_uj > 0


def test_a_shell_follows_the_cores_of_its_job(site: LiveSite, tmp_path: Path) -> None:
    job_id = job(
        site,
        tmp_path / "gate",
        kind=pb.JOB_KIND_MALLEABLE,
        size_min=1,
        size_max=2,
        mode=common_pb2.RESIZE_MODE_MASK,
    )
    client = subprocess.Popen(
        command(site, job_id, "--", "sleep", "31415"), stdin=subprocess.DEVNULL
    )
    (pid,) = wait_until("the command", lambda: _commands(site, "31415"))
    for size in (1, 2):
        site.wattfold("resize", job_id, str(size))
        wait_until(
            f"{size} cores",
            lambda size=size: {len(m) for m in thread_masks(pid).values()} == {size},
        )
    os.kill(pid, signal.SIGTERM)
    assert client.wait(DEADLINE_S) == 143


def test_a_shell_outlives_its_agent_and_the_next_agent_ends_it_with_the_job(
    site: LiveSite, terminal: tuple[Terminal, str], tmp_path: Path
) -> None:
    shell, job_id = terminal
    index = int(site.job(job_id).shares[0].node_id.removeprefix("n"))
    site.kill_agent(index)
    shell.write("echo still he''re\n")
    shell.read_until("still here")
    site.start_agent(index)
    wait_until("the node", lambda: site.node(index).state == pb.NODE_STATE_UP)
    assert site.wattfold("shell", job_id, "--", "echo", "again").stdout == "again\n"
    (tmp_path / "gate").touch()
    assert site.ended(job_id).exit_code == 5
    assert shell.end() == 255
    wait_until("no shell", lambda: not _in_job(site, job_id))


def test_a_shell_without_control_groups_counts_and_ends_all_the_same(
    start_site: Callable[..., LiveSite], tmp_path: Path
) -> None:
    plain = 'masks = "affinity"\njob_groups = "off"\nmemory_limits = "watch"'
    site = start_site(nodes=1, policy="fifo-easy", cpu_share=1.0, agent=plain, throttle="signals")
    job_id = job(site, tmp_path / "gate")
    before_ns = site.job(job_id).cpu_ns
    work = "import time\nwhile time.process_time() < 1: pass\nprint('done', flush=True)\ninput()"
    client = subprocess.Popen(
        command(site, job_id, "--", sys.executable, "-c", work),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert client.stdout is not None
    with client:
        assert client.stdout.readline() == b"done\n"
        wait_until("a second more", lambda: site.job(job_id).cpu_ns > before_ns + 9e8)
        (tmp_path / "gate").touch()
        assert site.ended(job_id).exit_code == 5
        assert not _in_job(site, job_id), "a job ends when nothing of it is alive"
        assert client.wait(DEADLINE_S) == 255


def test_each_node_of_a_job_can_be_entered(site: LiveSite, tmp_path: Path) -> None:
    whole = {"unit": pb.SIZE_UNIT_NODES, "size_min": 2, "size_max": 2}
    for launcher in (False, True):
        job_id = job(
            site,
            tmp_path / "gate",
            mode=common_pb2.RESIZE_MODE_FIXED,
            own_launcher=launcher,
            **whole,
        )
        for node in ("n0", "n1"):
            asked = ("shell", job_id, "--node", node, "--", "sh", "-c", "echo $WATTFOLD_NODE_ID")
            expected = f"{node}\n" if launcher else "\n"
            assert site.wattfold(*asked).stdout == expected
        site.cancel_all()


def test_what_cannot_be_entered_is_refused_with_the_reason(site: LiveSite, tmp_path: Path) -> None:
    held = site.submit(["true"], held=True)
    assert "has no process" in site.wattfold("shell", held, check=1).stderr
    job_id = job(site, tmp_path / "gate")
    (here,) = (share.node_id for share in site.job(job_id).shares)
    elsewhere = {"n0": "n1", "n1": "n0"}[here]
    refused = site.wattfold("shell", job_id, "--node", elsewhere, check=1)
    assert f"does not run on node {elsewhere}; its nodes are {here}" in refused.stderr
    site.client.suspend(job_id)
    assert "suspended" in site.wattfold("shell", job_id, check=1).stderr
    site.client.resume(job_id)
    (tmp_path / "gate").touch()
    site.ended(job_id)
    assert "it has ended" in site.wattfold("shell", job_id, check=1).stderr
    site.wattfold("shell", "nothing", check=4)


def _commands(site: LiveSite, word: str) -> list[int]:
    """Processes of jobs with this argument, without the client that asked for them."""
    found = []
    for pid in site.processes():
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if argv[:1] == [b"sleep"] and word.encode() in argv:
            found.append(pid)
    return found


def _in_job(site: LiveSite, job_id: str) -> list[int]:
    """Processes in the environment of a job, and its step hosts."""
    found = []
    for pid in site.processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"WATTFOLD_JOB_ID={job_id}".encode() in environment:
            found.append(pid)
    return found
