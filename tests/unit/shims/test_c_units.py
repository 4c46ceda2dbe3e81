"""The separable C parts of the shim, plain and under sanitizers."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from wattfold.nodeagent.core.tasks import RANK_VARIABLES

HERE = Path(__file__).parent
SHIMS = Path(__file__).resolve().parents[3] / "runtime_shims"
PARTS = ("callbacks", "cpulist", "local_rank", "teams", "wire")
SANITIZERS = {"none": (), "address": ("address,undefined",), "thread": ("thread",)}


@pytest.mark.parametrize("name", SANITIZERS)
def test_c_units(tmp_path: Path, name: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    flags = [f"-fsanitize={which}" for which in SANITIZERS[name]]
    if flags:
        flags += ["-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    program = tmp_path / "units"
    built = subprocess.run(
        [
            "gcc",
            *("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", *flags),
            *("-D_GNU_SOURCE", f"-I{SHIMS}/include", f"-I{SHIMS}/csrc", "-o", program),
            HERE / "c_units.c",
            *(SHIMS / "csrc" / f"{part}.c" for part in PARTS),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot find -l" in built.stderr or "libtsan" in built.stderr:
        pytest.skip(f"gcc has no {name} sanitizer here")
    assert built.returncode == 0, built.stderr
    # The thread sanitizer does not support the address layouts of some kernels.
    fixed = ("setarch", platform.machine(), "-R") if name == "thread" else ()
    done = subprocess.run(
        [*fixed, program], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" checks\n")


def test_agent_and_shim_know_a_rank_by_the_same_words() -> None:
    source = (SHIMS / "csrc" / "local_rank.c").read_text()
    assert tuple(re.findall(r'"([A-Z0-9_]+)"', source)) == RANK_VARIABLES
