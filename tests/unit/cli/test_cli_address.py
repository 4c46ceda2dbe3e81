"""Search for the address of the coordinator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattfold.coordinator.cli.shared.address import checked_address, default_address


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
