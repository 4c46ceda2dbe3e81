"""What the keeper does before a job runs: confinement, account, files, script, program, go."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from keeper_orders import KeptJob, order
from waiting import wait_until

from wattfold.nodeagent.core.errors import InvalidRequest, NodeFault, NotPermitted, Refused

NOBODY = pwd.getpwnam("nobody")
need_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def text_of(folder: Path, *argv: str, **changed: Any) -> str:
    """What a job writes, which ends with success."""
    changed = {"env": {"PATH": os.defpath}} | changed
    end = KeptJob(order(folder, *argv, **changed)).go().end()
    assert (end["exit_code"], end["signal"]) == (0, 0), (folder / "err").read_text()
    return (folder / "out").read_text()


def as_nobody(folder: Path) -> dict[str, Any]:
    """The account of a job whose folder belongs to this account."""
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.is_relative_to(tempfile.gettempdir()) and parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)
    return {"uid": NOBODY.pw_uid, "gid": NOBODY.pw_gid, "user": NOBODY.pw_name}


def test_a_job_runs_on_the_cpus_of_its_order(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    told = text_of(tmp_path, "grep", "Cpus_allowed_list", "/proc/self/status", affinity=[cpu])
    assert told.split()[-1] == str(cpu)


def test_a_job_enters_its_groups_in_their_order(tmp_path: Path) -> None:
    groups = [tmp_path / name for name in ("first", "second")]
    groups[0].write_text("")
    paths = [str(group) for group in groups]
    with pytest.raises(NodeFault, match=f"cannot enter the cgroup {paths[1]}: No such file"):
        KeptJob(order(tmp_path, "true", procs_paths=paths))
    assert groups[0].read_text() == "0"
    groups[1].write_text("")
    KeptJob(order(tmp_path, "/bin/true", procs_paths=paths)).go().end()
    assert groups[1].read_text() == "0"


def test_soft_limits_stay_below_hard_limits(tmp_path: Path) -> None:
    limits: list[tuple[str, int | None]] = [("core", 4096), ("stack", None), ("cpu", 2**50)]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = "ulimit -Sc; ulimit -Ss; ulimit -Sn; ulimit -Hn"
    told = text_of(tmp_path, "bash", "-c", script, limits=limits, files_soft_max=77).split()
    _, stack = resource.getrlimit(resource.RLIMIT_STACK)
    assert told == ["4", "unlimited" if stack == -1 else str(stack // 1024), "77", str(hard)]
    told = text_of(tmp_path, "bash", "-c", "ulimit -Sn", files_soft_max=2**62)
    assert told.split() == [str(hard)]


def test_processes_are_limited_where_no_group_limits_them(tmp_path: Path) -> None:
    told = text_of(tmp_path, "bash", "-c", "ulimit -Su; ulimit -Hu", processes_max=12345)
    assert told.split() == ["12345", "12345"]


@need_root
def test_the_protection_of_the_agent_from_the_oom_killer_ends_with_it(tmp_path: Path) -> None:
    path = Path("/proc/self/oom_score_adj")
    before = path.read_text()
    try:
        with contextlib.suppress(PermissionError):
            path.write_text("-500")
        if path.read_text() != "-500\n":
            pytest.skip("root may not protect a process here")
        assert text_of(tmp_path, "cat", str(path)) == "0\n"
        path.write_text("300")
        assert text_of(tmp_path, "cat", str(path)) == "300\n"
    finally:
        path.write_text(before)


@need_root
def test_a_job_has_the_groups_of_its_user_and_none_of_the_agent(tmp_path: Path) -> None:
    account = as_nobody(tmp_path)
    before = os.getgroups()
    try:
        os.setgroups([0, 4, 27])
        told = text_of(tmp_path, "id", "-G", **account)
        status = text_of(tmp_path, "grep", "^[UG]id", "/proc/self/status", **account)
    finally:
        os.setgroups(before)
    groups = {*os.getgrouplist(NOBODY.pw_name, NOBODY.pw_gid), NOBODY.pw_gid}
    assert set(map(int, told.split())) == groups
    assert status.split() == ["Uid:", *["65534"] * 4, "Gid:", *["65534"] * 4]


@need_root
def test_outputs_are_opened_as_the_user(tmp_path: Path) -> None:
    account = as_nobody(tmp_path)
    text_of(tmp_path, "true", **account)
    assert (tmp_path / "out").stat().st_uid == NOBODY.pw_uid
    closed = tmp_path / "closed"
    closed.write_text("of root")
    closed.chmod(0o644)
    with pytest.raises(InvalidRequest, match=r"cannot open the output \S+/closed: Permission den"):
        KeptJob(order(tmp_path, "true", stderr_path=str(closed), **account))
    assert closed.read_text() == "of root"


def test_a_user_that_cannot_be_had_is_no_fault_of_the_node(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can become any user")
    with pytest.raises(NotPermitted, match="cannot become the user root"):
        KeptJob(order(tmp_path, "true", uid=0, gid=0, user="root"))


def test_the_umask_is_that_of_the_user(tmp_path: Path) -> None:
    text_of(tmp_path, "touch", "made", umask=0o077)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o600


def broken(folder: Path) -> str:
    """A program that can be found but not executed."""
    path = folder / "broken"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stderr_path": "no/err"}, "open the output no/err: No such file"),
        ({"snapshot_path": "file/folder"}, "make the snapshot folder file/folder: Not a dir"),
        ({"argv": ["nothing"]}, "find the command nothing: No such file"),
        ({"argv": ["file"], "env": {"PATH": "."}}, "find the command file: Permission denied"),
        ({"argv": ["./file"]}, "find the command ./file: Permission denied"),
        ({"cwd": "/no/folder"}, "enter the directory /no/folder: No such file"),
    ],
)
def test_a_failed_step_is_told_and_leaves_no_file(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequest) as refused:
        KeptJob(order(tmp_path, "/bin/true", **changed))
    assert f"job 1: cannot {why}" in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_program_that_cannot_be_executed_leaves_no_file(tmp_path: Path) -> None:
    path = broken(tmp_path)
    job = KeptJob(order(tmp_path, path))
    with pytest.raises(InvalidRequest, match=f"cannot execute {path}: Exec format error"):
        job.go()
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_outputs_that_were_there_lose_nothing_before_the_job_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("earlier\n")
    with pytest.raises(InvalidRequest):
        KeptJob(order(tmp_path, "nothing"))
    KeptJob(order(tmp_path, "/bin/true")).abandon()
    assert out.read_text() == "earlier\n"
    assert text_of(tmp_path, "echo", "now", keep_output=True) == "earlier\nnow\n"
    assert text_of(tmp_path, "echo", "now") == "now\n"


def test_both_outputs_can_be_one_file(tmp_path: Path) -> None:
    told = text_of(tmp_path, "sh", "-c", "echo a; echo b >&2; echo c", stderr_path="out")
    assert told == "a\nb\nc\n"


def test_a_job_reads_nothing(tmp_path: Path) -> None:
    assert text_of(tmp_path, "readlink", "/proc/self/fd/0") == "/dev/null\n"


def test_the_folder_of_a_snapshot_is_made_for_the_user_alone(tmp_path: Path) -> None:
    text_of(tmp_path, "true", snapshot_path=str(tmp_path / "of/job/1"))
    assert stat.S_IMODE((tmp_path / "of/job/1").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "of/job").stat().st_mode) == 0o755
    text_of(tmp_path, "true", snapshot_path=str(tmp_path / "of/job/1"))


@pytest.mark.parametrize(
    ("first", "told"),
    [("#!/bin/sh", "x-"), ("#! /bin/sh -e", "xe-"), ("#!/usr/bin/env sh", "x-")],
)
def test_a_script_is_run_by_the_program_of_its_first_line(
    tmp_path: Path, first: str, told: str
) -> None:
    script = f"{first}\ncase $- in *e*) flag=e;; esac\necho x$flag- $1\nexit\n\0\udcff"
    assert text_of(tmp_path, "my-script", "word", script=script) == f"{told} word\n"


def test_a_script_leaves_no_file_and_one_descriptor(tmp_path: Path) -> None:
    script = "#!/bin/sh\nset -- /proc/$$/fd/*\necho $#; echo $0\n"
    told = text_of(tmp_path, "s", script=script).split()
    # 0, 1, 2, the script, what the shell reads it with, and the folder that it looks at.
    assert int(told[0]) <= 6
    assert told[1].startswith("/proc/self/fd/")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "exit", "out"]


def test_bytes_that_are_not_utf_8_reach_the_job(tmp_path: Path) -> None:
    odd = b"a\xff\xfe\n".decode("utf-8", "surrogateescape")
    folder = tmp_path / "\udcfe"
    folder.mkdir()
    wanted = order(folder, "/bin/sh", "-c", 'printf "%s$V" "$1"', "sh", odd, env={"V": odd})
    KeptJob(wanted).go().end()
    assert (folder / "out").read_bytes() == b"a\xff\xfe\na\xff\xfe\n"
    with pytest.raises(InvalidRequest, match=r"cannot find the command a\\xff\\xfe"):
        KeptJob(order(folder, odd))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"argv": ["/bin/true", "a\0b"]}, "embedded null byte"),
        ({"cwd": "/\0"}, "embedded null byte"),
        ({"env": {"A=B": "C"}}, "illegal environment variable name"),
        ({"env": {"": "C"}}, "illegal environment variable name"),
    ],
)
def test_what_no_program_can_get_is_refused(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        KeptJob(order(tmp_path, "/bin/true", **changed))
    assert list(tmp_path.iterdir()) == []


def test_commands_are_searched_in_the_path_of_the_job(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "tool").write_text(f"#!/bin/sh\necho {folder.name}\n")
    (folders[1] / "tool").chmod(0o755)
    path = ":".join(map(str, ("/no/such", *folders)))
    assert text_of(tmp_path, "tool", env={"PATH": path}) == "two\n"
    assert text_of(folders[1], "tool", env={"PATH": ":/no/such"}) == "two\n"
    assert text_of(folders[1], "tool", env={}) == "two\n"


def test_nothing_of_a_job_runs_before_it_may(tmp_path: Path) -> None:
    job = KeptJob(order(tmp_path, "/bin/touch", "ran"))
    assert Path(f"/proc/{job.pid}/comm").read_text() == "wattfold-keeper\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "exit.tmp", "out"]
    job.abandon()
    assert list(tmp_path.iterdir()) == []


def test_a_keeper_that_is_killed_before_the_job_may_run_takes_it_along(tmp_path: Path) -> None:
    job = KeptJob(order(tmp_path, "/bin/touch", "ran"))
    os.kill(job.keeper, 9)
    os.waitpid(job.keeper, 0)
    with pytest.raises(Refused, match="its keeper ended before the job was started"):
        job.go()
    wait_until("its files are gone", lambda: [p.name for p in tmp_path.iterdir()] == ["exit.tmp"])


def test_a_disk_without_room_for_the_end_is_a_fault_of_the_node(tmp_path: Path) -> None:
    missing = str(tmp_path / "jobs/exit")
    with pytest.raises(NodeFault, match=f"cannot set up its keeper {missing}: No such file"):
        KeptJob(order(tmp_path, "/bin/true", exit_path=missing))


@need_root
def test_a_reserve_that_does_not_fit_is_given_back(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        (tmp_path / "full").write_bytes(bytes(4096))
        with pytest.raises(NodeFault, match=r"set up its keeper \S+/exit: No space left"):
            KeptJob(order(tmp_path, "/bin/true"))
        assert [path.name for path in tmp_path.iterdir()] == ["full"]
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)
