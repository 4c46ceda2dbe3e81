"""`wattfold certify` with real programs, and its interruption."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from system.shims.programs_build import compile_program
from unit.cli.fake_coordinator import FakeCoordinator, serve, socket_address

from wattfold.v1 import common_pb2 as common

pytestmark = pytest.mark.system

WATTFOLD = (sys.executable, "-m", "wattfold.coordinator.cli.main")
DEADLINE_S = 60.0
FEW = ("--runs", "2", "--resizes", "10")


@pytest.fixture(scope="module")
def odd(built_shims: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("odd.c", built_shims, tmp_path_factory.mktemp("odd"), "-fopenmp")


@pytest.fixture
def fake() -> Iterator[tuple[FakeCoordinator, str]]:
    with tempfile.TemporaryDirectory(prefix="wf-") as folder:
        coordinator = FakeCoordinator()
        address = socket_address(Path(folder))
        server = serve(coordinator, address)
        yield coordinator, address
        server.stop(grace=None).wait(5)


def environment(shim: Path, address: str = "unix:/nowhere/c.sock") -> dict[str, str]:
    return {**os.environ, "WATTFOLD_OMP_SHIM": str(shim), "WATTFOLD_COORDINATOR": address}


def certify(
    shim: Path, folder: Path, *arguments: str | Path, address: str = "unix:/nowhere/c.sock"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WATTFOLD, "certify", *map(str, arguments)],
        cwd=folder,
        env=environment(shim, address),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )


def test_a_fit_program_is_certified_and_stored(
    built_shims: Path, shim: Path, tmp_path: Path, fake: tuple[FakeCoordinator, str]
) -> None:
    coordinator, address = fake
    jacobi = built_shims / "examples" / "jacobi"
    file = tmp_path / "c.json"
    done = certify(
        *(shim, tmp_path, "--json", "--threads", "3", *FEW, "--output", file, "--", jacobi, "150"),
        address=address,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["certificate"]["mode"] == "team"
    assert document["certificate"]["acknowledged"] >= 10
    assert json.loads(file.read_text())["certificate"] == document["certificate"]
    assert document["stored"]
    stored = coordinator.profiles["jacobi"]
    assert stored.mode == common.RESIZE_MODE_TEAM
    assert json.loads(stored.certificate) == document["certificate"]


def test_a_program_that_compares_thread_counts_is_not_fit(
    odd: Path, shim: Path, tmp_path: Path
) -> None:
    done = certify(shim, tmp_path, "--threads", "4", *FEW, odd, "counts")
    assert done.returncode == 5
    assert "not fit for team mode: the result of the resized program differs" in done.stdout
    assert "will not be stored" in done.stderr


def test_a_program_without_openmp_is_not_fit(shim: Path, tmp_path: Path) -> None:
    done = certify(shim, tmp_path, "--no-store", *FEW, "echo", "7")
    assert done.returncode == 5
    assert "finds no OpenMP runtime" in done.stdout
    assert "coordinator" not in done.stderr


def test_a_program_that_writes_no_result_gets_no_verdict(shim: Path, tmp_path: Path) -> None:
    silent = certify(shim, tmp_path, "--no-store", "true")
    absent = certify(shim, tmp_path, "--no-store", "--compare", "out.dat", "echo", "7")
    assert (silent.returncode, absent.returncode) == (1, 1)
    assert "no verdict: the program wrote nothing" in silent.stderr
    assert "no verdict: the program did not write 'out.dat'" in absent.stderr


def test_programs_start_in_copies_of_their_folder(odd: Path, shim: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text(f"#!/bin/sh\ncat input >output\nexec {odd} fit\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "input").write_text("x\n")
    done = certify(
        *(shim, tmp_path, "--no-store", *FEW, "--threads", "3", "--compare", "output", "./run"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compared     output, standard output\n" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input", "run"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_too(shim: Path, tmp_path: Path, number: int) -> None:
    mark = tmp_path / "pids"
    script = tmp_path / "slow"
    script.write_text(f"#!/bin/sh\necho $$ >>{mark}\nexec sleep 1000\n")
    script.chmod(0o755)
    process = subprocess.Popen(
        [*WATTFOLD, "certify", "--no-store", str(script)],
        cwd=tmp_path,
        env=environment(shim),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert select.select([process.stderr], [], [], DEADLINE_S)[0]
    assert process.stderr.readline().startswith("static run 1")
    end = time.monotonic() + DEADLINE_S
    while not (mark.exists() and mark.read_text().endswith("\n")):
        assert time.monotonic() < end
        select.select([process.stderr], [], [], 0.01)
    program = psutil.Process(int(mark.read_text()))
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    # Its number may belong to another process by now.
    assert not program.is_running()
