"""The built shim, compiled test programs, and an agent's end for each test."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.programs_build import clang_missing, compile_program, compile_shim
from system.shims.puppet import Launcher

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "shims"


@pytest.fixture(scope="session")
def built_shims() -> Path:
    """The build folder, up to date. Only one test process at a time builds."""
    if shutil.which(os.environ.get("CC", "gcc")) is None or not Path("/usr/include/zmq.h").exists():
        pytest.skip("needs gcc and libzmq3-dev to build the shim")
    BUILD.parent.mkdir(exist_ok=True)
    with (BUILD.parent / "shims.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [ROOT / "scripts" / "build_shims"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    return BUILD


@pytest.fixture(scope="session")
def default_shim(built_shims: Path) -> Path:
    """The library as built; WATTFOLD_OMP_SHIM names another build of it (sanitizers)."""
    return Path(os.environ.get("WATTFOLD_OMP_SHIM", built_shims / "libwattfold_omp.so"))


@pytest.fixture(scope="session")
def tool_shim(built_shims: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library as built for architectures without a fork_call.S."""
    return compile_shim(tmp_path_factory.mktemp("tool"), "-DWATTFOLD_OMPT_ONLY")


@pytest.fixture
def shim(default_shim: Path) -> Path:
    """The library under test; a test file may add other libraries."""
    return default_shim


@pytest.fixture(scope="session")
def gcc_puppet(built_shims: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenMP program that executes commands, on GNU's runtime."""
    return compile_program("puppet.c", built_shims, tmp_path_factory.mktemp("programs"), "-fopenmp")


@pytest.fixture
def puppet(gcc_puppet: Path) -> Path:
    """The program that most tests use; a test file may add other programs."""
    return gcc_puppet


@pytest.fixture(scope="session")
def clang_puppet(built_shims: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, built by clang: it runs on LLVM's runtime."""
    folder = tmp_path_factory.mktemp("clang")
    if missing := clang_missing(folder):
        pytest.skip(missing)
    return compile_program("puppet.c", built_shims, folder, "-fopenmp", compiler="clang")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentEnd]:
    with AgentEnd(tmp_path / "shim.sock") as end:
        yield end


@pytest.fixture
def launch(shim: Path, agent: AgentEnd) -> Iterator[Launcher]:
    """Starts programs under the shim and ends them after the test."""
    with Launcher(shim=shim, endpoint=agent.endpoint) as launcher:
        yield launcher
