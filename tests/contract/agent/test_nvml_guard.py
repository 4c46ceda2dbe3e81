"""The guard sets limits of NVIDIA GPUs through the C library, in a child process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from contract.agent.fake_nvml import Gpu
from contract.agent.test_nvml import LIMIT, A, B, name_of, opened, zones

from wattfold.nodeagent import guard_writes
from wattfold.nodeagent.adapters.devices import nvml

NVML_IN_C = r"""
#include <stdio.h>
#include <string.h>
static int gpu;
static int note(const char *what, void *g, unsigned value) {
    FILE *file = fopen(NOTES, "a");
    fprintf(file, "%s %d %u\n", what, g == &gpu, value);
    return fclose(file) ? 999 : 0;
}
int nvmlInit_v2(void) { return INIT; }
const char *nvmlErrorString(int code) { return code == 4 ? "Insufficient Permissions" : "other"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **g) {
    *g = &gpu;
    return strcmp(uuid, UUID) ? 6 : 0;
}
int nvmlDeviceSetPersistenceMode(void *g, unsigned mode) { return note("persistence", g, mode); }
int nvmlDeviceSetPowerManagementLimit(void *g, unsigned mw) {
    if (mw == 13000) for (;;) *(volatile char *)0 = 0;
    return note("limit", g, mw);
}
"""


def c_library(folder: Path, *, init: int = 0) -> tuple[str, Path]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    notes = folder / "notes"
    (folder / "nvml.c").write_text(NVML_IN_C)
    defines = [f'-DNOTES="{notes}"', f"-DINIT={init}", f'-DUUID="{A}"']
    library = folder / "libnvml.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", *defines, "-o", library, folder / "nvml.c"], check=True
    )
    return str(library), notes


_ATTEMPT = """
import json, sys
from wattfold.nodeagent import guard_writes
print(json.dumps(guard_writes._attempt_gpus(json.load(sys.stdin), sys.argv[1])))
"""


def attempt_gpus(writes: list[list[str]], library: str) -> list[tuple[list[str], str]]:
    """Do it in a process like the guard. The threads of gRPC in ours can crash a forked child."""
    done = subprocess.run(
        [sys.executable, "-c", _ATTEMPT, library],
        input=json.dumps(writes),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(write, why) for write, why in json.loads(done.stdout)]


def writes_of(uuid: str, limit_uw: int) -> list[list[str]]:
    folder = f"/dev/nvidiactl/nvml:{uuid}"
    return [[f"{folder}/{LIMIT}", str(limit_uw)], [f"{folder}/enabled", "1"]]


def test_the_guard_sets_gpus(tmp_path):
    library, notes = c_library(tmp_path)
    writes = [*writes_of(A, 200_000_000), *writes_of(B, 200_000_000)]
    failed = attempt_gpus(writes, library)
    assert notes.read_text() == "limit 1 200000\npersistence 1 1\n"
    assert failed == [(write, "other") for write in writes[2:]]


def test_the_guard_says_why_it_could_not(tmp_path):
    library, notes = c_library(tmp_path, init=4)
    writes = writes_of(A, 200_000_000)
    assert [why for _, why in attempt_gpus(writes, library)] == ["Insufficient Permissions"] * 2
    assert not notes.exists()
    absent = attempt_gpus(writes, str(tmp_path / "absent.so"))
    assert all("absent.so" in why for _, why in absent)


def test_a_driver_that_crashes_does_not_take_the_guard_along(tmp_path):
    library, _ = c_library(tmp_path)
    failed = attempt_gpus(writes_of(A, 13_000_000), library)
    assert [why for _, why in failed] == ["the driver did not answer"] * 2


def test_agent_and_guard_agree_on_the_place():
    _, files = opened(Gpu(uuid=A))
    writes = [[str(path), text] for path, text in zones(files)[name_of(A)].floor_writes()]
    assert writes == writes_of(A, 200_000_000)
    assert f"{nvml.DEVICE}/" == guard_writes._GPUS
