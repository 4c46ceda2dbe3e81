"""Places of libgomp: loaded late and privately by an extension, or inside the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.programs_build import compile_program, compiler_file
from system.shims.puppet import Launcher

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system

HOST = """
import ctypes, os, sys
print(len(os.listdir('/proc/self/task')), flush=True)
for line in sys.stdin:
    print(ctypes.CDLL(line.strip(), mode=os.RTLD_LOCAL | os.RTLD_NOW).extension_team(), flush=True)
"""


def test_a_libgomp_loaded_late_and_privately(
    launch: Launcher, agent: AgentEnd, built_shims: Path, tmp_path: Path
) -> None:
    extension = compile_program(
        "extension.c", built_shims, tmp_path, "-fopenmp", "-shared", "-fPIC"
    )
    host = launch.start(sys.executable, "-c", HOST)
    assert host.answer() == "1"
    assert host.ask(str(extension)) == "4"
    assert agent.expect(ShimMessageType.HELLO).text == "libgomp"
    assert agent.resize(2).cores == 2
    assert host.ask(str(extension)) == "2"
    assert host.finish() == (0, "")


UNLOADING_HOST = """
import ctypes, os, sys
from _ctypes import dlclose
for line in sys.stdin:
    for _ in range(3):
        library = ctypes.CDLL(line.strip(), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        team = library.extension_team()
        dlclose(library._handle)
    print(team, flush=True)
"""


def test_extensions_that_are_unloaded_and_loaded_again(
    launch: Launcher, agent: AgentEnd, built_shims: Path, tmp_path: Path
) -> None:
    flags = ("-fopenmp", "-shared", "-fPIC")
    extension = compile_program("extension.c", built_shims, tmp_path, *flags)
    host = launch.start(sys.executable, "-c", UNLOADING_HOST)
    assert host.ask(str(extension)) == "4"
    agent.expect(ShimMessageType.HELLO)
    assert agent.resize(3).cores == 3
    assert host.ask(str(extension)) == "3"
    assert host.finish() == (0, "")


def test_each_extension_keeps_its_own_libgomp(
    launch: Launcher, agent: AgentEnd, built_shims: Path, tmp_path: Path
) -> None:
    """With two copies of libgomp in one process, a call must reach the copy of its caller."""
    library = ("-fopenmp", "-shared", "-fPIC")
    first = compile_program("extension.c", built_shims, tmp_path, *library)
    private = tmp_path / "private"
    private.mkdir()
    # A copy under another name, as Python packages bundle it.
    copy = private / "libgomp.so.9"
    original = compiler_file("libgomp.so").read_bytes()
    copy.write_bytes(original.replace(b"libgomp.so.1\0", b"libgomp.so.9\0"))
    second = compile_program(
        "extension.c",
        built_shims,
        private,
        *(*library, "-Wl,--as-needed", f"-Wl,-rpath,{private}"),
        libraries=(str(copy),),
    )
    host = launch.start(sys.executable, "-c", HOST)
    assert host.answer() == "1"
    unlimited = [host.ask(str(first)), host.ask(str(second))]
    agent.expect(ShimMessageType.HELLO)
    agent.resize(3)
    assert unlimited == ["4", "4"]
    assert [host.ask(str(first)), host.ask(str(second))] == ["3", "3"]


def test_a_static_libgomp_is_reported_and_never_acknowledged_for(
    launch: Launcher, agent: AgentEnd, built_shims: Path, tmp_path: Path
) -> None:
    static = compile_program(
        "puppet.c",
        built_shims,
        tmp_path,
        "-fopenmp",
        libraries=("-Wl,--as-needed", str(compiler_file("libgomp.a"))),
    )
    program = launch.start(static)
    assert agent.expect(ShimMessageType.HELLO).text == "static-libgomp?"
    agent.send_mask(1)
    assert agent.poll(ShimMessageType.ACK, 0.3) is None
    assert program.team() == 4
    code, errors = program.finish()
    assert code == 0
    assert errors.startswith("wattfold: libgomp is linked into this program")
    assert errors.count("\n") == 1


LIKE_STATIC_LIBOMP = """
#include <stdio.h>
const char text[] = "%1$s must be set prior to OpenMP runtime library initialization; ignored.";
int main(void)
{
    return getchar() == text[0];
}
"""


def test_a_program_that_seems_to_hold_libomp_is_never_acknowledged_for(
    launch: Launcher, agent: AgentEnd, tmp_path: Path
) -> None:
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text(LIKE_STATIC_LIBOMP)
    subprocess.run(["gcc", "-O0", "-o", program, source], check=True)
    running = launch.start(program)
    assert agent.expect(ShimMessageType.HELLO).text == "static-libomp?"
    agent.send_mask(1)
    assert agent.poll(ShimMessageType.ACK, 0.3) is None
    code, errors = running.finish()
    assert code == 0
    assert errors.startswith("wattfold: libomp is linked into this program")
