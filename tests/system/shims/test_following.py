"""A real Python process under the shim follows masks and reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import Launcher

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system

PROGRAM = """
import sys
from wattfold.shims import connect, follow

with follow() as job:
    for line in sys.stdin:
        match line.split():
            case ["update"]:
                changed = job.update()
                mask = job.mask()
                print(changed, job.cores, mask.cpus if mask else None, flush=True)
            case ["report"]:
                job.progress(2, 8)
                job.phase("solve")
                print(job.request(3), flush=True)
            case ["version"]:
                print(connect().version(), flush=True)
"""


def test_python_hears_and_reports(launch: Launcher, agent: AgentEnd, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    program = launch.start(sys.executable, script)
    assert program.ask("update") == "False 4 None"
    agent.expect(ShimMessageType.HELLO)
    agent.resize(3)
    assert program.ask("update") == "True 3 0-2"
    assert program.ask("update") == "False 3 0-2"
    agent.resize(1)
    assert program.ask("update") == "True 1 0"
    assert program.ask("report") == "True"
    while (status := agent.expect(ShimMessageType.STATUS)).text != "request=3 phase=solve":
        pass
    assert (status.done, status.total) == (2.0, 8.0)
    assert program.ask("version") == "0.1.0"
    assert program.finish() == (0, "")
