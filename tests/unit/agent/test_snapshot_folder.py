"""Detection of new files in the snapshot folder of a job, by names, sizes and times."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.jobs import snapshot_folder
from wattfold.nodeagent.adapters.jobs.snapshot_folder import NOTHING, UNKNOWN, digest, look


def test_a_folder_that_is_not_there_has_nothing_in_it(tmp_path: Path) -> None:
    assert digest(str(tmp_path / "none")) == digest(str(tmp_path)) == NOTHING
    assert asyncio.run(look("")) == NOTHING


def test_of_a_folder_made_on_another_node_that_is_not_here_nothing_is_known(tmp_path: Path) -> None:
    assert asyncio.run(look(str(tmp_path / "none"), elsewhere=True)) == UNKNOWN
    assert asyncio.run(look(str(tmp_path), elsewhere=True)) == NOTHING
    assert asyncio.run(look("", elsewhere=True)) == NOTHING


def add(folder: Path) -> None:
    (folder / "second").write_text("")


def replace(folder: Path) -> None:
    """Replace a file by a file of the same size and time, as programs do when they save."""
    old = (folder / "state").stat()
    (folder / "new").write_text("one")
    os.utime(folder / "new", ns=(old.st_atime_ns, old.st_mtime_ns))
    (folder / "new").rename(folder / "state")


def write_below(folder: Path) -> None:
    (folder / "deep" / "part").write_text("more")


def remove(folder: Path) -> None:
    (folder / "state").unlink()


def point_elsewhere(folder: Path) -> None:
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("deep")


@pytest.mark.parametrize("change", [add, replace, write_below, remove, point_elsewhere])
def test_every_way_to_save_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    (tmp_path / "state").write_text("one")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "part").write_text("one")
    (tmp_path / "latest").symlink_to("state")
    before = digest(str(tmp_path))
    assert digest(str(tmp_path)) == before
    change(tmp_path)
    assert digest(str(tmp_path)) not in (before, UNKNOWN)


def test_what_cannot_be_looked_at_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert digest(str(tmp_path / "file")) == UNKNOWN
    monkeypatch.setattr(snapshot_folder, "ENTRIES_MAX", 3)
    for name in "abc":
        (tmp_path / name).write_text("")
    assert digest(str(tmp_path)) == UNKNOWN


def test_the_bytes_of_all_files_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b").write_bytes(b"x" * 23)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert asyncio.run(snapshot_folder.size_bytes(str(tmp_path))) == 123
    assert asyncio.run(snapshot_folder.size_bytes(str(tmp_path / "none"))) == 0
