"""`certify` copies the working folder once, and skips files that cannot be copied."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattfold.shims import working_copy as module
from wattfold.shims.certify_run import Program, run_alone
from wattfold.shims.working_copy import WorkingCopy, working_copy


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "input").write_text("1 2 3\n")
    (folder / "deep" / "er" / "table").write_text("4\n")
    (folder / "link").symlink_to("deep")
    return folder


def contents(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_text()
        found[str(path.relative_to(folder))] = str(kind)
    return found


@pytest.fixture
def listening(source: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(source)  # The name of a socket has at most 107 bytes.
        try:
            door.bind("door")
        finally:
            os.chdir(here)
        os.mkfifo(source / "pipe")
        yield


@pytest.mark.usefixtures("listening")
def test_sockets_and_pipes_are_left_out(source: Path) -> None:
    result = run_alone(Program(argv=("ls",), folder=source), 60.0)
    assert result.exit_code == 0
    assert result.outputs["standard output"].split() == [b"deep", b"input", b"link"]


def test_each_run_finds_the_folder_as_it_was(source: Path) -> None:
    before = contents(source)
    with working_copy(source) as copy:
        copy.restore()
        (copy.folder / "input").write_text("9 9 9\n")  # The same length.
        (copy.folder / "deep" / "er" / "table").unlink()
        (copy.folder / "output").write_text("5\n")
        (copy.folder / "new").mkdir()
        (copy.folder / "new" / "file").write_text("6\n")
        (copy.folder / "link").unlink()
        copy.restore()
        assert contents(copy.folder) == before
        shutil.rmtree(copy.folder / "deep")
        (copy.folder / "deep").write_text("no folder\n")
        copy.restore()
        assert contents(copy.folder) == before
    assert contents(source) == before


def test_what_no_run_has_changed_is_copied_once(source: Path) -> None:
    with working_copy(source) as copy:
        kept = (copy.folder / "input").stat().st_ino
        (copy.folder / "deep" / "er" / "table").write_text("changed\n")
        copy.restore()
        assert (copy.folder / "input").stat().st_ino == kept
        (source / "input").unlink()
        copy.restore()
        assert (copy.folder / "input").read_text() == "1 2 3\n"


def test_an_error_names_the_file(source: Path, tmp_path: Path) -> None:
    copy = WorkingCopy(source, tmp_path / "copy")
    (copy.folder / "input").unlink()
    (source / "input").unlink()
    with pytest.raises(OSError, match=str(source / "input")) as raised:
        copy.restore()
    assert "[(" not in str(raised.value), "no list of Python"
    assert module.__doc__
