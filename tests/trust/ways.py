"""The ways an agent can end jobs: with control groups, as root without them, as a user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.account_install import installation_for
from system.agent.agent_process import NOBODY, AgentProcess, agent
from system.agent.conftest import EMULATE, emulation_file, need_two_cpus
from trust.ends import built, have_compiler

PLAIN = ("--masks", "affinity", "--throttle", "signals", "--job-groups", "off")
WAYS = {
    "cgroup": ("--masks", "cgroup", "--throttle", "cgroup", "--job-groups", "cgroup"),
    "plain": PLAIN,
    "nobody": PLAIN,
}


@pytest.fixture(scope="module")
def program() -> Iterator[str]:
    """The program that resists its end."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the jobs run as another account, whose processes can be limited")
    if not have_compiler():
        pytest.skip("needs a C compiler")
    with tempfile.TemporaryDirectory(prefix="wattfold-ends-") as folder:
        Path(folder).chmod(0o755)
        yield str(built(Path(folder)))


@pytest.fixture(params=WAYS)
def running(request: pytest.FixtureRequest) -> Iterator[AgentProcess]:
    """An agent for each of the ways."""
    need_two_cpus()
    if request.param == "nobody" and installation_for(NOBODY) is None:
        pytest.skip("needs an interpreter another account may execute")
    uid = NOBODY if request.param == "nobody" else None
    with tempfile.TemporaryDirectory(prefix="wattfold-conf-") as folder:
        Path(folder).chmod(0o755)
        config = ("--config", emulation_file(Path(folder)), *EMULATE)
        with agent(*config, *WAYS[request.param], uid=uid) as started:
            started.work().chmod(0o777)
            yield started


def launch(running: AgentProcess, job: str, cpu: int, *argv: str) -> None:
    """Start a job of the normal account on one core."""
    user = "" if running.uid is not None else "nobody"
    running.launch(job, list(argv), str(cpu), user=user)
