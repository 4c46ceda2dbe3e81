"""Every command of the page for users of Slurm and Flux, run against a real site."""

from __future__ import annotations

import re
import shlex
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from system.site.live_site import LiveSite
from waiting import wait_until

from wattfold.v1 import coordinator_pb2 as pb

PAGE = Path(__file__).parents[3] / "docs" / "habits.md"
SLEEP = ("sh", "-c", "trap : USR1; while :; do sleep 0.05; done")
PENDING, HELD, RUNNING, ENDED = "pending", "held", "running", "ended"
SUSPENDED, DRAINED, RESERVED = "suspended", "drained", "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a command needs, what it prints, and what is true afterwards."""

    job: str = ""
    """State of the job 17."""
    says: str = ""
    """Pattern of its output."""
    then: Callable[[LiveSite, str], object] = lambda site, job: True
    """Becomes true. It gets the job 17, or the ID that the command printed."""


def state(*wanted: pb.JobState) -> Callable[[LiveSite, str], object]:
    return lambda site, job: site.job(job).state in wanted


COMPLETED = state(pb.JOB_STATE_COMPLETED)
WAITING = state(pb.JOB_STATE_PENDING, pb.JOB_STATE_HELD)
CANCELLED = state(pb.JOB_STATE_CANCELLED)


def spec(**wanted: object) -> Callable[[LiveSite, str], object]:
    return lambda site, job: all(
        getattr(site.job(job).spec, name) == value for name, value in wanted.items()
    )


ID = r"^\d+$"
CASES = {
    "wattfold submit job.sh": Case(says=ID, then=COMPLETED),
    "wattfold submit - < job.sh": Case(says=ID, then=COMPLETED),
    "wattfold submit -- ./program": Case(says=ID, then=COMPLETED),
    "wattfold run -- ./program": Case(says="^from the program$"),
    "wattfold submit --wait job.sh": Case(says=ID, then=COMPLETED),
    "wattfold submit --cores 2 job.sh": Case(says=ID, then=spec(size_min=2, size_max=2)),
    "wattfold submit --nodes 2 job.sh": Case(says=ID, then=spec(unit=pb.SIZE_UNIT_NODES)),
    "wattfold submit --memory 64M job.sh": Case(says=ID, then=spec(memory_bytes=64 << 20)),
    "wattfold submit --time 30m job.sh": Case(says=ID, then=spec(limit_ns=1800 * 10**9)),
    "wattfold submit --among n1 job.sh": Case(says=ID, then=spec(among=["n1"])),
    "wattfold submit --queue short job.sh": Case(says=ID, then=spec(queue="short")),
    "wattfold submit --array 0-3%2 job.sh": Case(
        says=ID,
        then=lambda site, job: len([j for j in ended(site) if j.startswith(f"{job}_")]) == 4,
    ),
    "wattfold submit --after ok:17 job.sh": Case(job=RUNNING, says=ID, then=WAITING),
    "wattfold submit --begin now+1h job.sh": Case(
        says=ID, then=lambda site, job: site.job(job).begin_at_s > time.time() + 3000
    ),
    "wattfold submit --hold job.sh": Case(says=ID, then=state(pb.JOB_STATE_HELD)),
    "wattfold submit --mail end job.sh": Case(says=ID, then=spec(mail=[pb.MAIL_EVENT_END])),
    "wattfold submit --requeue=3 job.sh": Case(says=ID, then=spec(requeue_max=3)),
    "wattfold queue": Case(job=RUNNING, says=r"^17 .*running"),
    "wattfold queue --mine": Case(job=RUNNING, says=r"^17 .*running"),
    "wattfold queue --format id,state": Case(job=RUNNING, says=r"^17\s+running"),
    "wattfold queue --start": Case(job=PENDING, says=r"^17 "),
    "wattfold explain 17": Case(job=PENDING, says="^Waits: "),
    "wattfold show 17": Case(job=RUNNING, says=r"state +.?running"),
    "wattfold logs -f 17": Case(job=ENDED, says="^from the program$"),
    "wattfold attach 17": Case(job=ENDED, says="^from the program$"),
    "wattfold shell 17 -- hostname": Case(job=RUNNING, says=f"^{socket.gethostname()}$"),
    "wattfold wait 17": Case(job=ENDED),
    "wattfold history --since 7d": Case(job=ENDED, says=r"^17 .*completed"),
    "wattfold report --by user --since 7d": Case(job=ENDED, says="USER"),
    "wattfold accounts": Case(says="^user|accounts or limits"),
    "wattfold cancel 17": Case(job=RUNNING, then=CANCELLED),
    "wattfold cancel --name md": Case(job=RUNNING, then=CANCELLED),
    "wattfold cancel --state waiting": Case(job=PENDING, then=CANCELLED),
    "wattfold hold 17": Case(job=PENDING, then=state(pb.JOB_STATE_HELD)),
    "wattfold release 17": Case(
        job=HELD, then=state(pb.JOB_STATE_PENDING, pb.JOB_STATE_RUNNING, pb.JOB_STATE_STARTING)
    ),
    "wattfold modify 17 --time 2h": Case(job=PENDING, then=spec(limit_ns=7200 * 10**9)),
    "wattfold modify 17 --name md": Case(job=RUNNING, then=spec(name="md")),
    "wattfold resize 17 2": Case(job=RUNNING, then=lambda site, job: site.job(job).size == 2),
    "wattfold suspend 17": Case(job=RUNNING, then=state(pb.JOB_STATE_SUSPENDED)),
    "wattfold resume 17": Case(job=SUSPENDED, then=state(pb.JOB_STATE_RUNNING)),
    "wattfold requeue 17": Case(job=RUNNING, then=lambda site, job: site.job(job).attempt == 2),
    "wattfold signal 17 USR1": Case(job=RUNNING, then=state(pb.JOB_STATE_RUNNING)),
    "wattfold nodes": Case(says=r"^n1 "),
    "wattfold queues": Case(says=r"^short "),
    "wattfold node drain n1 --reason disk": Case(
        then=lambda site, _: site.node(1).duty == pb.NODE_DUTY_DRAINING
    ),
    "wattfold node resume n1": Case(
        job=DRAINED, then=lambda site, _: site.node(1).duty == pb.NODE_DUTY_SERVING
    ),
    "wattfold reserve repair --nodes n1 --start +4h --duration 2h --maintenance": Case(
        then=lambda site, _: "repair" in site.wattfold("reservations").stdout
    ),
    "wattfold reservations": Case(job=RESERVED, says="^repair"),
    "wattfold reserve --cancel repair": Case(
        job=RESERVED, then=lambda site, _: "repair" not in site.wattfold("reservations").stdout
    ),
    "wattfold reload": Case(says="^Changed: nothing"),
    "wattfold audit --since 1d": Case(job=RUNNING, says="Submit"),
    "wattfold power": Case(says="budget"),
    "wattfold budget set 900W": Case(
        then=lambda site, _: "900" in site.wattfold("budget", "show").stdout
    ),
}


def ended(site: LiveSite) -> list[str]:
    lines = site.wattfold("queue", "--all", "--tasks", "--state", "completed", "--format", "id")
    return lines.stdout.split()


def page_commands() -> list[str]:
    """The last column of all tables of the page."""
    rows = re.findall(r"^\|.*\| `(wattfold [^`]+)` \|$", PAGE.read_text("utf-8"), re.M)
    assert len(rows) > 40
    return rows


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    queue = '\n[[queue]]\nname = "default"\n[[queue]]\nname = "short"\n'
    return start_site(nodes=2, parm=queue)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()
    shared.wattfold("reserve", "--cancel", "repair", check=None)
    shared.wattfold("node", "resume", "n1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("job.sh", "program"):
        (tmp_path / name).write_text("#!/bin/sh\necho from the program\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def prepared(site: LiveSite, folder: Path, need: str) -> str:
    """Bring the site into the state that a command needs; return the job 17."""
    if need == DRAINED:
        site.wattfold("node", "drain", "n1")
    elif need == RESERVED:
        words = "reserve repair --nodes n1 --start +4h --duration 2h --maintenance"
        site.wattfold(*words.split())
    if need in ("", DRAINED, RESERVED):
        return ""
    if need == ENDED:
        return site.wattfold("submit", "--wait", "./program", cwd=folder).stdout.split()[0]
    if need == PENDING:  # A job on both nodes lets it wait.
        site.running(site.wattfold("submit", "--nodes", "2", *SLEEP).stdout.strip())
    words = ("--cores", "1-2", "--mode", "mask", "--name", "md", "--restartable")
    held = ("--hold",) if need == HELD else ()
    job = site.wattfold("submit", *words, *held, "--", *SLEEP).stdout.strip()
    if need in (RUNNING, SUSPENDED):
        site.running(job)
    if need == SUSPENDED:
        site.wattfold("suspend", job)
        wait_until("suspended", lambda: state(pb.JOB_STATE_SUSPENDED)(site, job))
    return job


@pytest.mark.parametrize("command", page_commands())
def test_a_command_of_the_page(site: LiveSite, folder: Path, command: str) -> None:
    case = CASES[command]
    job = prepared(site, folder, case.job)
    line, _, script = command.partition(" < ")
    words = [word.replace("17", job) if job else word for word in shlex.split(line)[1:]]
    more = {"stdin": folder / script} if script else {}
    done = site.wattfold(*words, cwd=folder, **more)
    assert re.search(case.says.replace("17", job or "17"), done.stdout, re.M), done.stdout
    subject = done.stdout.split()[0] if case.says == ID else job
    wait_until(f"what {command!r} is for", lambda: case.then(site, subject))


def test_no_case_is_left_over() -> None:
    assert list(CASES) == page_commands()
