"""Several accounts on one site of root: owners of jobs, accounts of processes, permissions."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from system.site.live_site import CPUS, LiveSite, built, site_plan, wait_until
from trust.other_account import ask

from wattfold.v1 import coordinator_pb2 as pb

OWNER, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
SECRET = "hunter2-of-the-owner"
TELL = 'id -u; id -g; id -G; umask; ulimit -Sn; ulimit -Sc; echo "$HOME"; touch made; mkdir folder'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become other accounts")


class OpenSite(LiveSite):
    """A site that every account of this machine may use."""

    def start_coordinator(self, *more: str) -> None:
        self.folder.chmod(0o711)
        head = self.folder / "head"
        head.mkdir(mode=0o711, exist_ok=True)
        super().start_coordinator(*more)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSite]:
    if not built() or len(CPUS) < 2:
        pytest.skip("needs the example programs (scripts/build_shims) and two CPUs")
    # The kernel's group of a process, as the site's group: no account of this machine is in it.
    plan = site_plan(nodes=1, coordinator='socket_mode = "0666"\noperators = "staff"')
    with OpenSite(plan, tmp_path_factory.mktemp("site") / "logs") as running:
        yield running


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of the owner that other accounts may enter."""
    made = Path(tempfile.mkdtemp(prefix="wf-home-"))
    os.chown(made, OWNER.pw_uid, OWNER.pw_gid)
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def as_account(account: pwd.struct_passwd, site: LiveSite, *arguments: str, **shell: Any) -> str:
    """Return the output of a command under an account, which must succeed."""
    code, text = asyncio.run(ask(account.pw_uid, site.address, *arguments, **shell))
    assert code == 0, text
    return text.strip()


def refused(account: pwd.struct_passwd, site: LiveSite, *arguments: str) -> str:
    code, text = asyncio.run(ask(account.pw_uid, site.address, *arguments))
    assert code == 1, text
    assert "not permitted" in text
    return text


def submit(site: LiveSite, home: Path, *command: str, **shell: Any) -> str:
    return as_account(OWNER, site, "submit", "--cwd", str(home), "--", *command, **shell)


def ended(site: LiveSite, job_id: str, state: pb.JobState = pb.JOB_STATE_COMPLETED) -> pb.Job:
    job = site.ended(job_id)
    assert job.state == state, job
    return job


@pytest.fixture
def running(site: LiveSite, home: Path) -> Iterator[str]:
    """A job of the owner that runs until it is cancelled, with a secret in all fields."""
    job_id = submit(site, home, "/bin/sh", "-c", f"exec sleep 1000; : {SECRET}", umask="0077")
    site.running(job_id)
    yield job_id
    site.client.cancel(job_id)
    site.ended(job_id)


def test_a_job_may_wait_for_a_job_of_another_account(
    site: LiveSite, running: str, tmp_path: Path
) -> None:
    words = ("submit", "--cwd", "/", "--output", "/dev/null", "--error", "/dev/null")
    waits = as_account(OTHER, site, *words, "--after", f"any:{running}", "--", "true")
    shown = json.loads(as_account(OTHER, site, "--json", "show", waits))
    assert shown["reason"] == f"waits for the end of job {running}"
    assert [one["job_id"] for one in shown["after"]] == [running]
    others = json.loads(as_account(OWNER, site, "--json", "show", waits))
    assert (others["reason"], others.get("after", [])) == (shown["reason"], [])
    site.client.cancel(running)
    job = ended(site, waits)
    assert job.user == OTHER.pw_name
    assert job.started_at_s >= site.job(running).ended_at_s


# Account of the processes of a job.


def test_a_job_is_of_the_account_that_the_kernel_names_and_runs_as_it(
    site: LiveSite, home: Path
) -> None:
    limits = {"RLIMIT_NOFILE": 333, "RLIMIT_CORE": 0}
    job_id = submit(site, home, "/bin/sh", "-c", TELL, umask="0027", limits=limits)
    job = ended(site, job_id)
    assert (job.user, job.uid) == (OWNER.pw_name, OWNER.pw_uid)
    told = (home / f"wattfold-{job_id}.out").read_text().splitlines()
    groups = " ".join(map(str, os.getgrouplist(OWNER.pw_name, OWNER.pw_gid)))
    assert told[:4] == [str(OWNER.pw_uid), str(OWNER.pw_gid), groups, "0027"]
    assert told[4:6] == ["333", "0"]
    modes = {f"wattfold-{job_id}.out": 0o640, "made": 0o640, "folder": 0o750}
    for name, mode in modes.items():
        info = (home / name).stat()
        assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (
            OWNER.pw_uid,
            OWNER.pw_gid,
            mode,
        ), name


def with_groups() -> pwd.struct_passwd | None:
    """An account of this machine that is in a group in addition to its own."""
    for account in pwd.getpwall():
        if account.pw_uid and len(os.getgrouplist(account.pw_name, account.pw_gid)) > 1:
            return account
    return None


def test_its_groups_are_those_of_the_account_not_of_the_shell(site: LiveSite) -> None:
    account = with_groups()
    if account is None:
        pytest.skip("no account of this machine is in a group beside its own")
    folder = Path(tempfile.mkdtemp(prefix="wf-groups-"))
    try:
        os.chown(folder, account.pw_uid, account.pw_gid)
        command = ("submit", "--cwd", str(folder), "--", "id", "-G")
        job_id = as_account(account, site, *command, groups=[0])
        ended(site, job_id)
        told = {int(gid) for gid in (folder / f"wattfold-{job_id}.out").read_text().split()}
        assert told == set(os.getgrouplist(account.pw_name, account.pw_gid))
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("target", ["there", "not-there"])
def test_a_link_to_a_place_of_roots_is_not_written(
    site: LiveSite, home: Path, tmp_path: Path, target: str
) -> None:
    tmp_path.chmod(0o755)
    place = tmp_path / target
    if target == "there":
        place.write_text("of root")
        place.chmod(0o644)
    (home / "out").symlink_to(place)
    job_id = as_account(
        OWNER, site, "submit", "--cwd", str(home), "--output", "out", "--", "/bin/echo", "mine"
    )
    job = ended(site, job_id, pb.JOB_STATE_FAILED)
    assert "cannot open the output" in job.message
    assert place.exists() == (target == "there")
    assert target != "there" or place.read_text() == "of root"


def test_a_folder_that_the_account_may_not_enter_is_not_entered(
    site: LiveSite, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    spec = ("submit", "--no-check", "--cwd", str(closed), "--", "/bin/true")
    job = ended(site, as_account(OWNER, site, *spec), pb.JOB_STATE_FAILED)
    assert "cannot enter the directory" in job.message
    assert list(closed.iterdir()) == []


def test_a_job_of_root_runs_where_root_asks(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sh", "-c", "id -u"])
    job = ended(site, job_id)
    assert (job.user, job.uid) == ("root", 0)
    assert (site.work / f"wattfold-{job_id}.out").read_text() == "0\n"


# Permissions.


def test_a_shell_is_for_the_account_of_the_job_and_no_other(site: LiveSite, running: str) -> None:
    assert "only nobody may open a shell in it" in refused(OTHER, site, "shell", running)
    # Root is an operator here, and may cancel the job, but not act as its account.
    done = site.wattfold("shell", running, "--", "id", check=1)
    assert f"job {running} belongs to nobody; only nobody may open a shell in it" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("cancel", "{job}"),
        ("cancel", "--force", "{job}"),
        ("hold", "{job}"),
        ("release", "{job}"),
        ("explain", "{job}"),
        ("show", "{job}", "--env"),
    ],
)
def test_another_account_may_not(site: LiveSite, running: str, command: Sequence[str]) -> None:
    text = refused(OTHER, site, *(word.format(job=running) for word in command))
    assert f"job {running} belongs to nobody; only" in text
    assert site.job(running).state == pb.JOB_STATE_RUNNING


def test_another_account_sees_that_it_is_there_and_no_more(site: LiveSite, running: str) -> None:
    for command in (("queue",), ("show", running), ("watch", "--count", "1")):
        text = as_account(OTHER, site, *command)
        assert "hidden" in text, command
        assert OWNER.pw_name in text, command
        assert SECRET not in text, command
    for command in (("queue",), ("queue", "--all"), ("show", running), ("watch", "--count", "1")):
        text = as_account(OTHER, site, "--json", *command)
        assert SECRET not in text, command
        assert "wf-home-" not in text, command
    (job,) = jobs_of(as_account(OTHER, site, "--json", "queue", "--user", "nobody"))
    assert (job["access"], job["user"]) == ("JOB_ACCESS_OTHER", "nobody")
    assert job["spec"]["argv"] == []
    assert [share["node_id"] for share in job["shares"]] == ["n0"]
    assert as_account(OTHER, site, "queue", "--mine").startswith("No jobs of yours")
    # Neither a filter nor an order nor a column reveals a private field.
    assert as_account(OTHER, site, "queue", "--app", "sh", "-o", "id", "--no-header") == ""
    assert as_account(OWNER, site, "queue", "--app", "sh", "-o", "id", "--no-header") == running
    columns = as_account(OTHER, site, "queue", "-o", "id,user,name,app,energy,exit", "--no-header")
    assert columns.split("\t") == [running, OWNER.pw_name, "-", "-", "-", "-"]


def jobs_of(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["jobs"]
    return found


def test_its_owner_and_root_see_all_and_may(site: LiveSite, home: Path) -> None:
    first = submit(site, home, "/bin/sh", "-c", f"exec sleep 1000; : {SECRET}")
    second = submit(site, home, "/bin/sleep", "1000")
    site.running(first)
    assert SECRET in as_account(OWNER, site, "show", first)
    assert SECRET in site.job(first).spec.argv[-1]
    mine = jobs_of(as_account(OWNER, site, "--json", "queue", "--mine"))
    assert {job["job_id"] for job in mine} == {first, second}
    assert {job["access"] for job in mine} == {"JOB_ACCESS_OWN"}
    assert site.job(first).access == pb.JOB_ACCESS_OPERATOR
    as_account(OWNER, site, "cancel", first)
    site.client.cancel(second)
    ended(site, first, pb.JOB_STATE_CANCELLED)
    ended(site, second, pb.JOB_STATE_CANCELLED)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("budget", "set", "900"), "the budget is for operators"),
        (("node", "drain", "n0"), "draining a node is for operators"),
        (
            ("node", "forget", "n0", "--outside-budget"),
            "removing a node from the ledger is for operators",
        ),
        (("profile", "delete", "sleep"), "dropping a profile"),
        (("profile", "reset", "of-others"), "dropping a profile"),
        (("audit", "--user", "root"), "only operators may see"),
    ],
)
def test_what_touches_everybody_is_for_operators(
    site: LiveSite, command: Sequence[str], what: str
) -> None:
    assert what in refused(OWNER, site, *command)
    assert site.client.power().budget_uw == 1_000_000_000
    entries = json.loads(as_account(OWNER, site, "--json", "audit"))["entries"]
    # Calls that only read are not in the trail.
    assert command[0] == "audit" or entries[-1]["outcome"] == "refused"
    assert {entry["uid"] for entry in entries} == {OWNER.pw_uid}


def test_members_of_the_group_are_operators(site: LiveSite, running: str) -> None:
    import grp

    staff = [grp.getgrnam("staff").gr_gid]
    assert SECRET in as_account(OTHER, site, "show", running, groups=staff)
    as_account(OTHER, site, "budget", "set", "1000", groups=staff)
    as_account(OTHER, site, "cancel", running, groups=staff)
    ended(site, running, pb.JOB_STATE_CANCELLED)


def test_keys_of_one_account_say_nothing_to_another(site: LiveSite, home: Path) -> None:
    command = ("submit", "--idempotency-key", "k", "--cwd", str(home), "--hold", "--", "/bin/true")
    first = as_account(OWNER, site, *command)
    assert as_account(OWNER, site, *command) == first
    other = as_account(OTHER, site, *command)
    assert other != first
    for job_id in (first, other):
        site.client.cancel(job_id)


def test_an_account_without_a_name_has_no_jobs(site: LiveSite) -> None:
    code, text = asyncio.run(ask(65533, site.address, "submit", "--cwd", "/", "--", "true"))
    assert code == 1
    assert "number 65533, has no name" in text


def test_nobody_but_the_coordinator_reaches_the_agent_which_moves_jobs(
    site: LiveSite, running: str
) -> None:
    shims = site.agent_socket(0).parent / "shims" / running / "sock"
    wait_until("the socket of its shims", shims.exists)
    for account, paths in {
        OWNER: [site.agent_socket(0)],
        OTHER: [site.agent_socket(0), shims],
    }.items():
        for path in paths:
            assert "PermissionError" in connect_as(account, path), path


def connect_as(account: pwd.struct_passwd, path: Path) -> str:
    script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", script],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    )
    return done.stderr


def test_the_socket_is_as_it_was_asked_for(site: LiveSite) -> None:
    assert site.coordinator_socket.stat().st_mode & 0o777 == 0o666
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(str(site.coordinator_socket))


# A job in the hands of its owner.


def test_output_signals_and_changes_are_for_the_owner_and_operators(
    site: LiveSite, home: Path
) -> None:
    ready = 'trap "echo told" USR1; echo ready; while :; do sleep 0.05; done'
    command = ("submit", "--cwd", str(home), "--time", "1h", "--", "/bin/sh", "-c", ready)
    job_id = as_account(OWNER, site, *command)
    wait_until("output", lambda: as_account(OWNER, site, "logs", job_id) == "ready")
    for words in (("logs", job_id), ("signal", job_id, "USR1"), ("modify", job_id, "--name", "x")):
        told = refused(OTHER, site, *words)
        assert f"job {job_id} belongs to {OWNER.pw_name}" in told
    as_account(OWNER, site, "signal", job_id, "USR1")
    wait_until("signal", lambda: "told" in as_account(OWNER, site, "logs", job_id))
    assert site.wattfold("logs", job_id).stdout == "ready\ntold\n"
    changed = as_account(OWNER, site, "modify", job_id, "--time", "30m", "--priority", "0.5")
    assert f"{job_id} time limit 3600 s -> 1800 s" in changed
    code, told = asyncio.run(ask(OWNER.pw_uid, site.address, "modify", job_id, "--time", "2h"))
    assert code == 1
    assert "can be raised (to 7200 s) only by operators" in told
    site.wattfold("modify", job_id, "--time", "2h")
    assert site.job(job_id).spec.limit_ns == 7200 * 10**9
    site.client.cancel(job_id)
    site.ended(job_id)
