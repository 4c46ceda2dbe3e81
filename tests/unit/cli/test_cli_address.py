"""Search for the address of the coordinator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattfold.coordinator.cli.main import main
from wattfold.coordinator.cli.shared.connection.address import checked_address, default_address


def test_runtime_directory_of_the_session_comes_first(tmp_path: Path) -> None:
    (tmp_path / str(os.getuid())).mkdir()
    found = default_address({"XDG_RUNTIME_DIR": "/x", "HOME": "/h"}, run_user=tmp_path)
    assert found == "unix:/x/wattfold/coordinator.sock"


def test_then_the_one_of_the_user_then_home(tmp_path: Path) -> None:
    environment = {"HOME": "/h"}
    assert default_address(environment, run_user=tmp_path) == (
        "unix:/h/.wattfold/wattfold/coordinator.sock"
    )
    mine = tmp_path / str(os.getuid())
    mine.mkdir()
    assert default_address(environment, run_user=tmp_path) == (
        f"unix:{mine}/wattfold/coordinator.sock"
    )


def test_a_long_runtime_directory_ends_only_commands_that_connect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATTFOLD_COORDINATOR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * 100)
    with pytest.raises(SystemExit) as ended:
        main(["policies", "easy"])
    assert ended.value.code == 0
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["queue"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert (
        "above the limit of 107 bytes; choose a shorter path, or set WATTFOLD_COORDINATOR" in told
    )
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("text", ["unix:/a/b.sock", "head:7070", "127.0.0.1:1", "[::1]:7070"])
def test_addresses(text: str) -> None:
    assert checked_address(text) == text


def test_three_slashes_are_the_same_socket() -> None:
    assert checked_address("unix:///a/b.sock") == "unix:/a/b.sock"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("head", "expected unix:"),
        ("head:0", "expected unix:"),
        ("head:99999", "expected unix:"),
        (":7070", "expected unix:"),
        ("unix:relative.sock", "absolute"),
        ("unix:/" + "x" * 107, "108 bytes"),
    ],
)
def test_no_addresses(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checked_address(text)
