"""Mail about jobs, sent by programs that succeed, fail and hang."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from unit.history.ended_jobs import ended
from waiting import wait_until

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.config.settings import load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.mail import mailer
from wattfold.coordinator.adapters.mail.mailer import Mailer
from wattfold.coordinator.adapters.mail.notices import JobStage, events_between
from wattfold.coordinator.adapters.mail.settings import MailSettings
from wattfold.coordinator.adapters.requests.submissions import InvalidRequestError, job_spec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.mail import MailEvent, MailRequest
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

ALL = tuple(MailEvent)
BEGIN, END, FAIL, REQUEUE = ALL
WRITE = """out=$(mktemp FOLDER/part.XXXXXX)
{ printf '%s\\n' "$@"; cat; } > "$out"
mv "$out" "FOLDER/mail.${out##*.}"
"""


def job(number: int, *events: MailEvent, address: str = "", user: str = "ada") -> Job:
    """A job that has ended."""
    found = ended(str(number))
    mail = MailRequest(events=events, address=address)
    found.spec = replace(found.spec, mail=mail, user=user)
    return found


class Site:
    """A mailer whose program writes each mail into a file."""

    def __init__(self, folder: Path, body: str = WRITE, gap_s: float = 60.0, **settings: str):
        self.folder = folder
        path = folder / "program"
        path.write_text("#!/bin/sh\n" + body.replace("FOLDER", str(folder)), encoding="utf-8")
        path.chmod(0o755)
        self.settings = MailSettings(program=(str(path),), **settings)
        self.state: State = CoordinatorCore(1).state
        self.gap_s = gap_s

    def run(self, *moments: Sequence[Job], wait_for: int = 0, before: Sequence[Job] = ()) -> None:
        """Let jobs change at each moment, wait for so many mails, and stop."""

        async def run() -> None:
            self.state.jobs.update({one.job_id: one for one in before})
            made = Mailer(self.settings, Clock(), lambda: self.state, self.gap_s)
            for moment in moments:
                self.state.jobs.update({one.job_id: one for one in moment})
                made.note(Changes(jobs={one.job_id: None for one in moment}))
                await asyncio.sleep(0.001)  # The timer of the first mail runs.
            while len(self.mails()) < wait_for:
                await asyncio.sleep(0.01)
            await made.close()

        asyncio.run(asyncio.wait_for(run(), 60))

    def mails(self) -> list[list[str]]:
        """The lines of each mail, oldest first: the arguments, then the text."""
        paths = sorted(self.folder.glob("mail.*"), key=lambda path: path.stat().st_mtime_ns)
        return [path.read_text().splitlines() for path in paths]


def test_a_mail_names_the_job_and_how_it_ended(tmp_path: Path) -> None:
    site = Site(tmp_path)
    one = job(7, END)
    one.state, one.exit_code, one.message = JobState.FAILED, 3, "killed on n1"
    site.run([one])
    (lines,) = site.mails()
    subject = "Wattfold: Job 7 (bench) has ended: failed, exit status 3"
    assert lines[:3] == ["-s", subject, "ada"]
    assert lines[3] == subject.removeprefix("Wattfold: ")
    assert {"State: failed", "Nodes: n1, n2", "Message: killed on n1"} <= set(lines)
    assert lines[-1] == "For more, run: wattfold show 7"


@pytest.mark.parametrize(
    ("wanted", "before", "state", "attempt", "events"),
    [
        (ALL, JobStage(1, False, False), JobState.RUNNING, 1, [BEGIN]),
        (ALL, JobStage(1, True, False), JobState.RUNNING, 1, []),
        (ALL, JobStage(1, True, False), JobState.SUSPENDED, 1, []),
        (ALL, JobStage(1, True, False), JobState.COMPLETED, 1, [END]),
        (ALL, JobStage(1, True, False), JobState.FAILED, 1, [FAIL]),
        (ALL, JobStage(1, True, False), JobState.TIMED_OUT, 1, [FAIL]),
        (ALL, JobStage(1, True, False), JobState.LOST, 1, [FAIL]),
        (ALL, JobStage(1, True, False), JobState.CANCELLED, 1, [END]),
        ((END,), JobStage(1, True, False), JobState.FAILED, 1, [END]),
        ((FAIL,), JobStage(1, True, False), JobState.COMPLETED, 1, []),
        (ALL, JobStage(1, True, False), JobState.PENDING, 2, [REQUEUE]),
        (ALL, JobStage(1, True, True), JobState.PENDING, 2, [REQUEUE]),
        (ALL, JobStage(1, True, False), JobState.RUNNING, 2, [REQUEUE, BEGIN]),
        (ALL, JobStage(1, True, True), JobState.FAILED, 2, [REQUEUE, FAIL]),
        (ALL, JobStage(1, False, False), JobState.CANCELLED, 1, [END]),
        (ALL, JobStage(1, True, True), JobState.COMPLETED, 1, []),
        ((), JobStage(1, True, False), JobState.COMPLETED, 1, []),
    ],
)
def test_events_of_a_job(
    wanted: tuple[MailEvent, ...],
    before: JobStage,
    state: JobState,
    attempt: int,
    events: list[MailEvent],
) -> None:
    one = job(1, *wanted)
    one.state, one.attempt = state, attempt
    assert events_between(before, one) == events


def test_events_of_a_moment_are_one_mail_and_later_ones_are_collected(tmp_path: Path) -> None:
    site = Site(tmp_path, gap_s=0.5)
    first = [job(number, END) for number in range(1, 4)]
    site.run(first, [job(4, END)], [job(5, END)], wait_for=2)
    one, two = site.mails()
    assert one[1] == "Wattfold: 3 events of jobs"
    assert one[3:] == [f"Job {number} (bench) has ended: completed" for number in (1, 2, 3)]
    assert two[1] == "Wattfold: 2 events of jobs"


def test_addresses_have_mails_of_their_own(tmp_path: Path) -> None:
    site = Site(tmp_path, domain="example.org")
    site.run([job(1, END), job(2, END, address="bob"), job(3, END, address="x@y.org")])
    assert {lines[2] for lines in site.mails()} == {"ada@example.org", "bob@example.org", "x@y.org"}


def test_a_stop_sends_what_waits(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.run([job(1, END)], [job(2, END)])
    assert sorted(lines[1] for lines in site.mails()) == [
        "Wattfold: Job 1 (bench) has ended: completed",
        "Wattfold: Job 2 (bench) has ended: completed",
    ]


def test_a_restart_tells_only_what_changes_later(tmp_path: Path) -> None:
    site = Site(tmp_path)
    running = job(2, END)
    running.state = JobState.RUNNING
    late = job(2, END)
    site.run([job(1, END), late], before=[job(1, END), running])
    (lines,) = site.mails()
    assert lines[1] == "Wattfold: Job 2 (bench) has ended: completed"


def test_one_account_cannot_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailer, "PENDING_MAX", 3)
    site = Site(tmp_path)
    mine = [job(number, END) for number in range(1, 6)]
    site.run([*mine, job(6, END, user="bob", address="bob")])
    told = {lines[2]: lines for lines in site.mails()}
    assert told["ada"][1] == "Wattfold: 5 events of jobs"
    assert told["ada"][-1] == "and 2 more"
    assert told["bob"][1] == "Wattfold: Job 6 (bench) has ended: completed"


def test_a_failing_program_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path, "echo no route to host\nexit 4\n")
    with caplog.at_level(logging.WARNING, "wattfold.coordinator"):
        site.run([job(1, END)])
    (record,) = caplog.records
    assert "mail_not_sent" in record.message
    assert "exit status 4: no route to host" in record.message


def test_a_missing_program_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path)
    (tmp_path / "program").unlink()
    with caplog.at_level(logging.WARNING, "wattfold.coordinator"):
        site.run([job(1, END)])
    assert "No such file" in caplog.text


def test_a_hanging_program_is_killed_at_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailer, "STOP_S", 0.2)
    site = Site(tmp_path, "echo $$ > FOLDER/pid\nexec sleep 1000\n")
    site.run([job(1, END)])
    path = tmp_path / "pid"
    if path.exists():  # A slow machine may end the program before it wrote.
        pid = int(path.read_text())
        wait_until("the program has ended", lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize("address", ["-oQ/tmp", "a b", "a;b", "a@b@c", "a\n", "é@b", "a" * 300])
def test_an_address_is_one_plain_word(address: str) -> None:
    message = pb.JobSpec(argv=["true"], mail=[pb.MAIL_EVENT_END], mail_to=address)
    with pytest.raises(InvalidRequestError, match="mail address"):
        job_spec(message)


def test_an_address_needs_events() -> None:
    with pytest.raises(InvalidRequestError, match="needs events"):
        job_spec(pb.JobSpec(argv=["true"], mail_to="ada"))


def test_requested_mail_is_kept(tmp_path: Path) -> None:
    events = [pb.MAIL_EVENT_FAIL, pb.MAIL_EVENT_BEGIN, pb.MAIL_EVENT_FAIL]
    spec = job_spec(pb.JobSpec(argv=["true"], mail=events, mail_to="a.b+c@d-e.org"))
    assert spec.mail == MailRequest(events=(FAIL, BEGIN), address="a.b+c@d-e.org")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('program = "mail"', "full path"),
        ('domain = "example.org"', "needs mail.program"),
        ('program = "/usr/bin/mail"\ndomain = "a b"', "such as example.org"),
        ('program = "/usr/bin/mail"\naccount = "no-such-account"', "no-such-account"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "coordinator.toml"
    path.write_text(f"[mail]\n{text}\n")
    with pytest.raises(ConfigError, match=reason):
        load(path, {})


@pytest.fixture
def configured(tmp_path: Path) -> MailSettings:
    path = tmp_path / "coordinator.toml"
    path.write_text('[mail]\nprogram = "/usr/bin/mail -r batch"\ndomain = "example.org"\n')
    return load(path, {}).mail


def test_settings(configured: MailSettings) -> None:
    assert configured.program == ("/usr/bin/mail", "-r", "batch")
    assert configured.domain == "example.org"
    assert configured.account == ("nobody" if os.geteuid() == 0 else "")


def test_a_job_that_is_deleted_is_forgotten(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def run() -> None:
        site.state.jobs[JobId("1")] = job(1, END)
        made = Mailer(site.settings, Clock(), lambda: site.state)
        del site.state.jobs[JobId("1")]
        made.note(Changes(jobs={JobId("1"): None}))
        # The number is not used again, but the stage must not stay in memory.
        assert not made._stages
        await made.close()

    asyncio.run(run())
