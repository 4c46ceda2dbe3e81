"""Wrong configurations: exit status 2 and one line with place, error and limit."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from system.site.live_site import run_command

COORDINATOR = {
    "not toml": ("budget_w = = 3\n", "line 1"),
    "unknown key": ("budget_w = 100\nbudgt = 1\n", "unknown setting budgt; did you mean budget_w?"),
    "out of range": ("budget_w = 100\nlease_s = 0.1\n", "lease_s = 0.1 s is outside 1..3600 s"),
    "wrong type": ('budget_w = "much"\n', "budget_w = 'much' is not a number"),
    "unknown policy": ('budget_w = 100\npolicy = "best"\n', "choose one of parm-wse"),
    "no budget": ("", "no power budget"),
    "node twice": (
        'budget_w = 100\n[[node]]\nid = "a"\naddress = "x"\n[[node]]\nid = "a"\naddress = "y"\n',
        "node a is listed twice",
    ),
    "node is no table": ("budget_w = 100\nnode = 3\n", "[[node]]"),
    "node entries are no tables": ("budget_w = 100\nnode = [1, 2]\n", "must be a table"),
    "not finite": ("budget_w = nan\n", "budget_w"),
    "metrics without a host": (
        'budget_w = 100\n[metrics]\nlisten = "9187"\n',
        "line 3: metrics.listen: '9187' is not HOST:PORT",
    ),
    "open to anyone": ('budget_w = 100\nlisten = "127.0.0.1:0"\n', "needs --token-file"),
}
AGENT = {
    "not toml": ("floor_w = = 3\n", "line 1"),
    "unknown key": ("flor_w = 3\n", "flor_w"),
    "out of range": ("base_power_w = -1\n", "base_power_w"),
    "wrong type": ('floor_w = "low"\n', "floor_w"),
    "cores that are not there": ('cpus = "0-100000"\n', "cpus"),
    "section is no table": ("emulation = 3\n", "[emulation]"),
    "unknown key in section": ("emulate = true\n[emulation]\nf_lo = 1\n", "f_lo"),
}


@pytest.mark.parametrize("name", COORDINATOR)
def test_coordinator(tmp_path: Path, name: str) -> None:
    text, said = COORDINATOR[name]
    config = tmp_path / "c.toml"
    config.write_text(text)
    check_refusal("wattfold-coordinator", config, said, "--state-dir", str(tmp_path / "state"))


@pytest.mark.parametrize("name", AGENT)
def test_agent(tmp_path: Path, name: str) -> None:
    text, said = AGENT[name]
    config = tmp_path / "a.toml"
    config.write_text(text)
    folders = ("--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run"))
    check_refusal("wattfold-agent", config, said, *folders)


@pytest.mark.parametrize("command", ["wattfold-coordinator", "wattfold-agent"])
def test_a_file_that_is_not_there(tmp_path: Path, command: str) -> None:
    check_refusal(command, tmp_path / "none.toml", "No such file")


def test_an_address_in_use(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x" * 32)
    token.chmod(0o600)
    config = tmp_path / "c.toml"
    config.write_text("budget_w = 100\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        more = ("--state-dir", str(tmp_path / "s"), "--token-file", str(token), "--listen", listen)
        check_refusal(
            "wattfold-coordinator",
            config,
            f"cannot listen on {listen}: Address already in use",
            *more,
        )


def test_an_address_of_the_metrics_in_use(tmp_path: Path) -> None:
    """The start ends before it begins an epoch."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        config = tmp_path / "c.toml"
        config.write_text(f'budget_w = 100\n[metrics]\nlisten = "{listen}"\n')
        said = f"cannot listen on {listen}: Address already in use"
        check_refusal("wattfold-coordinator", config, said, "--state-dir", str(tmp_path / "s"))
    assert not (tmp_path / "s").exists()


def test_a_journal_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "journal.sqlite").write_bytes(b"no database" * 1000)
    config = tmp_path / "c.toml"
    config.write_text("budget_w = 100\n")
    said = "journal.sqlite: file is not a database"
    check_refusal("wattfold-coordinator", config, said, "--state-dir", str(tmp_path / "state"))


def test_a_state_directory_that_anyone_can_write(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    config = tmp_path / "c.toml"
    config.write_text("budget_w = 100\n")
    said = "is writable by every user"
    check_refusal("wattfold-coordinator", config, said, "--state-dir", str(state))


def check_refusal(command: str, config: Path, said: str, *more: str) -> None:
    done = run_command(command, "--config", str(config), *more)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [line for line in lines if line.startswith(f"{command}:")] == lines
    assert len(lines) == 1
    assert done.stdout == ""
