"""Files of an installed shim for developers of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

SOURCE = "#include <wattfold.h>\nint main(void) { return wattfold_poll(0) || !wattfold_cores(); }\n"
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(Wattfold 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE Wattfold::wattfold)
if(NOT EXISTS "${Wattfold_OMP_SHIM}")
  message(FATAL_ERROR "no ${Wattfold_OMP_SHIM}")
endif()
"""


def run(*command: str | Path, **more: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cmake() -> str:
    beside = Path(sys.executable).with_name("cmake")
    found = str(beside) if beside.exists() else shutil.which("cmake")
    if found is None:
        pytest.skip("no cmake")
    return found


@pytest.fixture
def prefix(cmake: str, built_shims: Path, tmp_path: Path) -> Path:
    """An installed tree, made from a build for it."""
    sources = Path(__file__).resolve().parents[3] / "runtime_shims"
    place = tmp_path / "installed"
    options = ("-DWATTFOLD_EXAMPLES=OFF", f"-DCMAKE_INSTALL_PREFIX={place}")
    make = ("-G", "Unix Makefiles")
    run(
        cmake,
        *make,
        "-S",
        sources,
        "-B",
        tmp_path / "build",
        *options,
        "-DCMAKE_INSTALL_LIBDIR=lib",
    )
    run(cmake, "--build", tmp_path / "build")
    run(cmake, "--install", tmp_path / "build")
    return place


def test_cmake_and_pkg_config_find_it(cmake: str, prefix: Path, tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "user.c").write_text(SOURCE)
    (user / "CMakeLists.txt").write_text(PROJECT)
    make = ("-G", "Unix Makefiles", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(cmake, *make, "-S", user, "-B", user / "build")
    run(cmake, "--build", user / "build")
    run(user / "build" / "user")
    if shutil.which("pkg-config") is None:
        return
    told = run(
        "pkg-config", "--cflags", "--libs", "wattfold", PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig"
    )
    run("gcc", "-o", user / "user", user / "user.c", *told.split())
    run(user / "user")
    for page in ("man3/wattfold.3", "man7/wattfold_omp.7"):
        assert (prefix / "share/man" / page).is_file()


@pytest.mark.parametrize("page", ["wattfold.3", "wattfold_omp.7"])
def test_manual_pages_are_well_formed(page: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff (comes with man-db)")
    source = Path(__file__).resolve().parents[3] / "runtime_shims" / "man" / page
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z", source],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
