"""This installation in a form that another account can use.

A checkout in a home directory may be closed to other accounts. Tests of ordinary accounts then get
a copy of sources, built shims, tests, and the installed packages without the largest development
packages. The copy is made once per test process and removed at its end.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("proto", "coordinator", "nodeagent", "runtime_shims/src", "tests", "build/shims")
MARK = "runtime_shims/CMakeLists.txt"
"""By this file the code finds what is built from C in a checkout."""
STRANGER = 65533
"""An account that owns nothing and is in no group."""
UNFINISHED = shutil.ignore_patterns("*.pyc.*")
"""Bytecode that a process is writing. Finished bytecode is copied: the account stores none."""
DEVELOPMENT = frozenset({"ruff", "mypy", "mypyc", "pip", "uv", "cmake", "matplotlib", "fontTools"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An interpreter, its PYTHONPATH, and the folder that replaces the checkout."""

    python: str
    libraries: str
    root: Path

    def path(self, inside: Path) -> Path:
        """Path of a file of the checkout for the other account."""
        return self.root / inside.resolve().relative_to(ROOT)


def installation_for(uid: int) -> Installation | None:
    """Return an installation that an account can run; None without an executable interpreter.

    Root only. Accounts other than root and without its groups have the same permissions.
    """
    return _installation(own=uid == os.geteuid())


@functools.cache
def _installation(*, own: bool) -> Installation | None:
    uid = os.geteuid() if own else STRANGER
    python = _python_for(uid)
    if not python:
        return None
    own = [Path(p) for p in sys.path if p and not p.startswith(sys.base_prefix)]
    here = Installation(python=python, libraries=":".join(map(str, own)), root=ROOT)
    if _usable(here, uid):
        return here
    copied = _copy(python, own)
    return copied if _usable(copied, uid) else None


def _python_for(uid: int) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}"):
        try:
            subprocess.run([candidate, "-c", ""], user=uid, group=uid, check=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    return ""


def _usable(installation: Installation, uid: int) -> bool:
    done = subprocess.run(
        [installation.python, "-c", "import wattfold.nodeagent.app, wattfold.coordinator.app.main"],
        user=uid,
        group=uid,
        extra_groups=[],
        env={"PYTHONPATH": installation.libraries, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
        cwd="/",
    )
    return done.returncode == 0


def _copy(python: str, own: list[Path]) -> Installation:
    folder = Path(tempfile.mkdtemp(prefix="wattfold-install-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for part in PARTS:
        if (ROOT / part).exists():
            shutil.copytree(ROOT / part, folder / "root" / part, ignore=UNFINISHED)
    shutil.copy(ROOT / MARK, folder / "root" / MARK)
    paths: list[Path] = []
    for number, path in enumerate(own):
        if "site-packages" in path.parts:
            paths.append(folder / f"packages-{number}")
            _copy_packages(path, paths[-1])
        elif path.resolve().is_relative_to(ROOT):
            paths.append(folder / "root" / path.resolve().relative_to(ROOT))
    libraries = ":".join(map(str, paths))
    return Installation(python=python, libraries=libraries, root=folder / "root")


def _copy_packages(path: Path, target: Path) -> None:
    def left_out(folder: str, names: list[str]) -> set[str]:
        here = DEVELOPMENT & set(names) if Path(folder) == path else set()
        return here | UNFINISHED(folder, names)

    shutil.copytree(path, target, ignore=left_out, symlinks=True)
