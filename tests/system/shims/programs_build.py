"""Compilation of the C programs of these tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
SHIMS = Path(__file__).resolve().parents[3] / "runtime_shims"
INCLUDE = SHIMS / "include"
COMPILER = os.environ.get("CC", "gcc")


def compile_program(
    source: str,
    built: Path,
    folder: Path,
    *flags: str,
    libraries: tuple[str, ...] = (),
    compiler: str = COMPILER,
) -> Path:
    """Build a program or library into a folder; ``libraries`` follow it in the link order."""
    program = folder / Path(source).stem
    command = [
        compiler,
        *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *flags),
        *("-I", str(INCLUDE), "-o", str(program)),
        *(str(PROGRAMS / source), str(built / "libwattfold.a"), *libraries, "-ldl"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def compile_shim(folder: Path, *flags: str) -> Path:
    """Build the shim itself with other settings."""
    library = folder / "libwattfold_omp.so"
    sources = [path for path in sorted((SHIMS / "csrc").glob("*.[cS]")) if path.stem != "fallback"]
    command = [
        COMPILER,
        *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-shared", "-fPIC"),
        *("-fvisibility=hidden", "-D_GNU_SOURCE", '-DWATTFOLD_SHIM_VERSION="0.1.0"', *flags),
        *("-I", str(INCLUDE), "-Wl,-z,nodelete,-z,now", "-o", str(library), *map(str, sources)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


def compiler_file(name: str) -> Path:
    """Path of one of the compiler's own libraries."""
    done = subprocess.run(
        [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip()).resolve()


def clang_missing(folder: Path) -> str | None:
    """Reason why clang cannot build OpenMP programs here; None if it can."""
    if shutil.which("clang") is None:
        return "no clang (apt-get install clang libomp-dev)"
    source = folder / "empty.c"
    source.write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
    done = subprocess.run(
        ["clang", "-fopenmp", "-o", str(folder / "empty"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else f"clang has no OpenMP (libomp-dev): {done.stderr}"
