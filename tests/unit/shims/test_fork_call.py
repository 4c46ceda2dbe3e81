"""The assembly part of the shim, on this machine and, emulated, on the other architecture."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHIMS = Path(__file__).resolve().parents[3] / "runtime_shims"


def build(compiler: str, folder: Path, *flags: str) -> Path:
    program = folder / "units"
    built = subprocess.run(
        [
            compiler,
            *("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fexceptions", "-rdynamic"),
            *("-D_GNU_SOURCE", f"-I{SHIMS}/csrc", *flags, "-o", program),
            *(HERE / "fork_call_units.c", SHIMS / "csrc" / "fork_call.S"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_arguments_pass_through(tmp_path: Path, optimised: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("not written for this architecture")
    done = subprocess.run(
        [build("gcc", tmp_path, optimised)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "411 checks\n")


def test_arguments_pass_through_on_aarch64(tmp_path: Path) -> None:
    compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    if shutil.which(compiler) is None or shutil.which(emulator) is None:
        pytest.skip("needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user")
    program = build(compiler, tmp_path, "-O2", "-static")
    done = subprocess.run([emulator, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "411 checks\n")
