"""Mail about jobs of a real site, through a program of the site."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.live_site import LiveSite
from waiting import wait_until

_PROGRAM = """#!/bin/sh
# usage: mail FOLDER -s SUBJECT ADDRESS
part=$(mktemp "$1/part.XXXXXX")
{ echo "$3"; echo "$4"; cat; } > "$part"
mv "$part" "$1/mail.${part##*.}"
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("box")
    program = folder / "program"
    program.write_text(_PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite], box: Path) -> LiveSite:
    account = pwd.getpwuid(os.geteuid()).pw_name
    table = f'[mail]\nprogram = "{box}/program {box}"\naccount = "{account}"\n'
    return start_site(nodes=1, parm=table)


def mails_to(box: Path, address: str) -> list[str]:
    texts = [path.read_text() for path in box.glob("mail.*")]
    return [text for text in texts if text.splitlines()[1] == address]


def test_mail_of_a_job_that_begins_and_fails(site: LiveSite, box: Path) -> None:
    words = ("--mail", "begin,fail", "--mail-to", "ada", "--name", "a b", "--no-check")
    job = site.wattfold("submit", *words, "--", "sh", "-c", "sleep 1000").stdout.strip()
    assert "begin, fail, to ada" in site.wattfold("show", job).stdout
    wait_until("the first mail", lambda: mails_to(box, "ada"))
    assert mails_to(box, "ada")[0].startswith(f"Wattfold: Job {job} (a b) has started\n")
    site.wattfold("signal", job, "KILL")
    site.ended(job)


def test_a_job_of_slurm_and_an_end_without_a_coordinator(
    site: LiveSite, box: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = tmp_path / "job.sh"
    lines = ("#!/bin/sh", "#SBATCH --mail-type=END,TIME_LIMIT_80", "#SBATCH --mail-user=bob@b.org")
    script.write_text("\n".join((*lines, f"while [ ! -e {go} ]; do sleep 0.05; done", "")))
    done = site.wattfold("submit", "job.sh", cwd=tmp_path)
    assert "not supported: --mail-type=TIME_LIMIT_80 (line 2)" in done.stderr
    job = done.stdout.strip()
    site.running(job)
    pid = site.pid(job)
    site.coordinator.kill()
    site.coordinator.wait()
    go.touch()
    wait_until("the job has ended", lambda: not Path(f"/proc/{pid}").exists())
    site.restart_coordinator()
    wait_until("the mail", lambda: mails_to(box, "bob@b.org"))
    (text,) = mails_to(box, "bob@b.org")
    assert text.startswith(f"Wattfold: Job {job} (job.sh) has ended: completed\n")
    assert f"wattfold show {job}" in text


def test_a_wrong_address_is_refused(site: LiveSite) -> None:
    words = ("--mail", "end", "--mail-to", "-oQ/tmp")
    refused = site.wattfold("submit", *words, "--", "true", check=1)
    assert "mail address '-oQ/tmp'" in refused.stderr
