"""Set-user-id programs of jobs have their rights, and the agent has only those that it uses."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.agent.agent_process import NOBODY, AgentProcess, until
from system.agent.conftest import CPUS, EMULATE

from wattfold.nodeagent.adapters.jobs.capabilities import Capability

UNIT = Path(__file__).parents[2] / "packaging/systemd/wattfold-agent.service"
NEEDED = ("gcc", "setpriv")
OF_GPUS = {Capability.NET_ADMIN, Capability.SYS_ADMIN, Capability.BPF}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, NEEDED)), reason="needs root, gcc and setpriv"
)


def as_the_unit_starts_it() -> tuple[str, ...]:
    """Words that start a command as systemd does by the shipped unit, as far as rights go."""
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT, encoding="utf-8")
    service, words = parser["Service"], []
    if "CapabilityBoundingSet" in service:
        kept = service["CapabilityBoundingSet"].lower().replace("cap_", "").split()
        words += ["--bounding-set", ",".join(["-all", *(f"+{name}" for name in kept)])]
    if service.getboolean("NoNewPrivileges", fallback=False):
        words.append("--no-new-privs")
    before = ("setpriv", *words) if words else ()
    return ("sh", "-c", f'umask {service["UMask"]}; exec "$0" "$@"', *before)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every account may enter, on a file system that honours set-user-id bits."""
    with tempfile.TemporaryDirectory(prefix="wattfold-rights-") as name:
        if os.statvfs(name).f_flag & os.ST_NOSUID:
            pytest.skip("the folder for temporary files is mounted nosuid")
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def agent(folder: Path) -> Iterator[AgentProcess]:
    flags = (*EMULATE, "--masks", "affinity", "--throttle", "signals", "--kill-jobs-on-exit")
    root = folder / "agent"
    root.mkdir(mode=0o755)
    running = AgentProcess(root, *flags)
    running.prefix = as_the_unit_starts_it()
    running.start()
    os.chown(running.work(), NOBODY, NOBODY)
    yield running
    assert running.stop() == 0, running.log()


def sets(pid: int, thread: int | None = None) -> dict[str, int]:
    """The capability sets of a process, or of a thread."""
    path = Path(f"/proc/{pid}/task/{thread or pid}/status")
    lines = (line.split() for line in path.read_text().splitlines() if line.startswith("Cap"))
    return {name[3:6].lower(): int(mask, 16) for name, mask in lines}


def launched(agent: AgentProcess, job: str, *words: str) -> int:
    fields = {"user": "nobody", "uid": NOBODY}
    return agent.launch(job, list(words), ",".join(map(str, CPUS)), **fields).pid


def test_a_set_user_id_program_of_a_job_has_all_rights(agent: AgentProcess, folder: Path) -> None:
    program, file = folder / "rights", folder / "file"
    source = Path(__file__).with_name("rights.c")
    subprocess.run(["gcc", "-o", str(program), str(source)], check=True, timeout=240)
    program.chmod(0o4755)
    file.touch()
    launched(agent, "setuid", str(program), str(file))
    agent.ended("setuid")
    told = (agent.work() / "wattfold-setuid.out").read_text()
    assert told == "chown=0\nraw=0\nmount=0\n"
    assert file.stat().st_uid == 1


def test_the_agent_has_only_the_rights_that_it_uses(agent: AgentProcess) -> None:
    assert agent.process is not None
    pid, ours = agent.process.pid, sets(os.getpid())
    used = sum(1 << one for one in Capability if one not in OF_GPUS)
    threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1
    for thread in threads:
        found = sets(pid, thread)
        assert (found["eff"], found["prm"]) == (used & ours["prm"], used & ours["prm"])
    assert "event=capabilities_dropped" in agent.log()


def test_a_job_gets_no_rights_and_keeps_the_bounding_set(agent: AgentProcess) -> None:
    pid = launched(agent, "sleeper", "sleep", "600")
    until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    job, ours = sets(pid), sets(os.getpid())
    assert (job["eff"], job["prm"], job["inh"], job["amb"]) == (0, 0, 0, 0)
    assert job["bnd"] == ours["bnd"]
    agent.signal("sleeper", 9)
    agent.ended("sleeper")
