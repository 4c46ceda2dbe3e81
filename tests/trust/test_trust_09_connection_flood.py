"""Floods of connections to the socket of a job cause no lasting damage to the job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.agent.agent_process import AgentProcess, agent, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_shims import SHIM

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.system
ONE, BOTH = str(CPUS[0]), ",".join(map(str, CPUS))
PATIENCE_S = 60.0
# A thousand connections per second: many times the allowed rate.
FLOOD = """
import socket, sys, time
print("up", flush=True)
while True:
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(sys.argv[1])
    except OSError:
        pass
    time.sleep(0.001)
"""
# Connections that stay open.
CROWD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
crowd = []
print("up", flush=True)
while True:
    try:
        crowd.append(socket.socket(socket.AF_UNIX))
        crowd[-1].connect(sys.argv[1])
    except OSError:
        crowd.pop().close()
        crowd = crowd[-1500:]
    time.sleep(0.0005)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[AgentProcess]:
    need_two_cpus()
    flags = ("--masks", "affinity", "--throttle", "signals", *EMULATE)
    with agent("--config", emulation_file(tmp_path), *flags) as running:
        yield running


@pytest.fixture
def job(node: AgentProcess) -> Path:
    """The socket of a job with an obedient shim.

    A second shim starts once the file "late" exists.
    """
    script = node.work() / "shim.py"
    script.write_text(SHIM)
    shim = f"{sys.executable} {script} obey"
    late = "until [ -e late ]; do sleep 0.05; done"
    fields = {
        "mode": common.RESIZE_MODE_TEAM,
        "env": {"SHIM_PATH": ":".join(path for path in sys.path if path)},
    }
    node.launch("s", ["/bin/sh", "-c", f"{shim} & {late}; {shim} & wait"], BOTH, **fields)
    until(lambda: said(node, "shim_attached") == 1)
    return node.root / "run" / "shims" / "s" / "sock"


def said(node: AgentProcess, event: str) -> int:
    return node.log().count(f"event={event} job=s")


@pytest.mark.parametrize("script", [FLOOD, CROWD], ids=["flood", "crowd"])
def test_a_flood_by_another_process_of_the_account(node, job, script):
    flood = subprocess.Popen(
        [sys.executable, "-c", script, str(job)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "up\n"
        until(lambda: said(node, "shim_connections_flooded") == 1)
        # The connected shim receives its masks and answers.
        for cpus in (ONE, BOTH) * 5:
            assert node.mask("s", cpus, deadline_s=10).shim == pb.SHIM_STATE_ATTACHED
        assert usage(node).shim_message.startswith("more than ")
        # A process of the job gets a connection.
        (node.work() / "late").touch()
        until(lambda: said(node, "shim_attached") == 2, PATIENCE_S)
        assert said(node, "shim_connections_recovered") == 0
    finally:
        flood.kill()
        flood.communicate()
    until(lambda: said(node, "shim_connections_recovered") == 1)
    assert usage(node).shim_message == ""
    # The flood leaves nothing behind: new connections are served immediately.
    assert job.is_socket()
    assert node.mask("s", ONE).shim == pb.SHIM_STATE_ATTACHED
    assert said(node, "shim_connections_flooded") == 1
    assert said(node, "shim_connections_refused") == 0


def usage(node: AgentProcess) -> pb.JobUsage:
    found: pb.JobUsage = node.telemetry(lambda message: bool(message.jobs)).jobs[0]
    return found


def test_a_job_that_floods_itself_is_confined_until_it_stops(node):
    script = CROWD.replace("sys.argv[1]", 'sys.argv[1].removeprefix("ipc://")').replace(
        "while True:", "import os\nwhile not os.path.exists('enough'):"
    )
    obey = SHIM.replace("sys.argv[1:]", "")
    program = f"{script}\nfor one in crowd:\n    one.close()\nsys.argv.append('obey')\n{obey}"
    fields = {
        "mode": common.RESIZE_MODE_TEAM,
        "env": {"SHIM_PATH": ":".join(path for path in sys.path if path)},
    }
    command = f'exec {sys.executable} -c "$PROGRAM" "$WATTFOLD_SHIM_ENDPOINT"'
    fields["env"]["PROGRAM"] = program
    node.launch("s", ["/bin/sh", "-c", command], BOTH, **fields)
    until(lambda: said(node, "shim_connections_refused") == 1)
    assert node.mask("s", ONE).shim == pb.SHIM_STATE_CONFINED
    (node.work() / "enough").touch()
    until(lambda: said(node, "shim_connections_recovered") == 1)
    until(lambda: said(node, "shim_attached") == 1, PATIENCE_S)
    assert node.mask("s", BOTH).shim == pb.SHIM_STATE_ATTACHED
