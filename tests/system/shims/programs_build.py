"""Compiles the C programs of these tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
INCLUDE = Path(__file__).resolve().parents[3] / "runtime_shims" / "include"
COMPILER = os.environ.get("CC", "gcc")


def compile_program(
    source: str, built: Path, folder: Path, *flags: str, libraries: tuple[str, ...] = ()
) -> Path:
    """Builds one program or library into a folder; ``libraries`` come after it in the link."""
    program = folder / Path(source).stem
    command = [
        COMPILER,
        *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *flags),
        *("-I", str(INCLUDE), "-o", str(program)),
        *(str(PROGRAMS / source), str(built / "libwattfold.a"), *libraries, "-ldl"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def compiler_file(name: str) -> Path:
    """Where the compiler finds one of its own libraries."""
    done = subprocess.run(
        [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip()).resolve()
