"""The checkpoint folder of a program that restarts itself: private, and removed after its end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wattfold.shims import charm_checkpoint


def ran(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    command = charm_checkpoint.removing(folder, ["/bin/sh", "-c", script, "sh", str(folder)])
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_a_program_has_a_folder_of_its_own_until_it_ends(tmp_path: Path) -> None:
    folder = charm_checkpoint.own_folder(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert charm_checkpoint.arguments(folder) == ["+shrinkexpand_basedir", str(folder)]
    done = ran(folder, 'mkdir "$1/sub0"; echo data > "$1/sub0/arr_0.dat"; ls "$1"; exit 3')
    assert (done.stdout, done.returncode) == ("sub0\n", 3)
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_program_that_dies_of_a_signal_is_told_to_have_died_of_it(
    tmp_path: Path, number: int
) -> None:
    folder = charm_checkpoint.own_folder(tmp_path)
    assert ran(folder, f"kill -{number} $$").returncode == -number
    assert not folder.exists()


def test_a_signal_to_all_of_the_job_leaves_the_decision_to_the_program(tmp_path: Path) -> None:
    folder = charm_checkpoint.own_folder(tmp_path)
    script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done"
    command = charm_checkpoint.removing(folder, ["/bin/sh", "-c", script])
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(30) == 7
    assert not folder.exists()


def test_what_a_killed_program_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    mine = charm_checkpoint.own_folder(tmp_path)
    pid, started = mine.name.rpartition("rebuild-")[2].split("-")
    assert int(pid) == os.getpid()
    # The process number belongs to another process by now, or is free.
    left = [tmp_path / f"wattfold-rebuild-{pid}-{int(started) + 1}"]
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    left.append(tmp_path / f"wattfold-rebuild-{int(gone.stdout)}-77")
    other = tmp_path / "wattfold-rebuild-of-somebody"
    for folder in (*left, other):
        folder.mkdir()
        (folder / "RO.dat").touch()
    charm_checkpoint.remove_left(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])
