"""The services: check of a configuration, version, signals, zones, fencing, names of log fields."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner
from system.agent.agent_process import AgentProcess, until

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.agents.calls import AgentCalls, FencedError
from wattfold.coordinator.app.main import main
from wattfold.nodeagent.adapters.config_flags import parse_arguments

ROOT = Path(__file__).resolve().parents[2]


def checked(folder: Path, text: str, *options: str) -> tuple[int, str]:
    config = folder / "coordinator.toml"
    config.write_text(text)
    result = CliRunner().invoke(main, [*options, "check", "--config", str(config)])
    return result.exit_code, result.output


def test_a_configuration_is_checked_without_a_start(tmp_path: Path) -> None:
    node = '[[node]]\nid = "n0"\naddress = "n0:1"\n'
    text = f'state_dir = "{tmp_path}/state"\nbudget_w = 100\n{node}'
    status, said = checked(tmp_path, text)
    assert (status, "budget 100.0 W, nodes: 1" in said) == (0, True), said
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("budget_w = 100\nbuget_w = 3\n", [], "line 2: unknown setting buget_w"),
        ('operators = ["no-such-account"]\n', [], "no-such-account"),
        ('\noperators = "no-such"\n', [], "line 2: operators = 'no-such': this group does not"),
        ('token_account = "no-such"\n', [], "line 1: token_account"),
        ("", ["--listen", "0.0.0.0:7170"], "command line: listening on 0.0.0.0:7170 needs"),
        ('\n\nlisten = "0.0.0.0:7170"\n', [], "line 3: listening on 0.0.0.0:7170 needs"),
        ('budget_w = 9\nagent_token_file = "/no/such/file"\n', [], "line 2: token file /no/such"),
        ('[metrics]\nlisten = "9187"\n', [], "line 2: metrics.listen: '9187' is not HOST:PORT"),
        ('[metrics]\nlisten = "head:70000"\n', [], "port 70000 is outside 0..65535"),
        ("[metrics]\nport = 9187\n", [], "line 2: unknown setting metrics.port"),
    ],
)
def test_a_wrong_configuration_is_refused(
    tmp_path: Path, text: str, options: list[str], words: str
) -> None:
    status, said = checked(tmp_path, text, *options)
    assert (status, words in said) == (2, True), said


def test_the_agent_has_a_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"wattfold-agent, version \S+\n", capsys.readouterr().out)


def test_an_agent_without_zones_says_so_and_ignores_a_hangup(tmp_path: Path) -> None:
    powercap = tmp_path / "powercap"
    powercap.mkdir()
    agent = AgentProcess(tmp_path, "--powercap-root", str(powercap), "--masks", "affinity")
    agent.start()
    try:
        assert agent.ready.startswith(f"ready node={agent.node} capped_zones=0 listen=")
        assert "this agent enforces no cap; `wattfold-agent check` gives the reasons" in agent.log()
        assert agent.process is not None
        agent.process.send_signal(signal.SIGHUP)
        until(lambda: "event=reload_refused" in agent.log())
    finally:
        assert agent.stop() == 0


@pytest.mark.parametrize(
    ("code", "text", "fenced"),
    [
        (grpc.StatusCode.ABORTED, "another coordinator has taken over", True),
        (grpc.StatusCode.FAILED_PRECONDITION, "the snapshot of epoch 3 is missing", False),
    ],
)
def test_the_status_and_not_the_words_say_that_a_coordinator_is_fenced(
    code: grpc.StatusCode, text: str, fenced: bool
) -> None:
    async def refused(request: Any, **_: Any) -> Any:
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(code, nothing, nothing, details=text)

    async def call() -> None:
        hooks: Any = None
        calls = AgentCalls(NodeId("n0"), "unix:/nowhere", "", hooks, 1.0)
        await calls.call(refused, None)

    with pytest.raises(FencedError if fenced else grpc.aio.AioRpcError, match=text):
        asyncio.run(call())


def test_causes_of_failures_have_one_name_in_all_logs() -> None:
    call = re.compile(r"(?:logs\.(?:info|warning)|\bline)\((?:[^()]|\([^()]*\))*\bwhy=")
    sources = (ROOT / "nodeagent/src", ROOT / "coordinator/src")
    files = [path for source in sources for path in source.rglob("*.py")]
    assert [path.name for path in files if call.search(path.read_text(encoding="utf-8"))] == []
