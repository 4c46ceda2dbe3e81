"""Finds the built shim library: told by the environment, installed, or built in a source checkout.

It is only found here, not loaded: it works inside other programs, through LD_PRELOAD.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

OMP_SHIM_FILE = "libwattfold_omp.so"
OMP_SHIM_VARIABLE = "WATTFOLD_OMP_SHIM"


def find_omp_shim(environment: Mapping[str, str] | None = None) -> Path | None:
    """Absolute path of the OpenMP shim, or None when there is none.

    ``WATTFOLD_OMP_SHIM`` wins and is not second-guessed: if it names no file, the answer is None.
    """
    told = (os.environ if environment is None else environment).get(OMP_SHIM_VARIABLE)
    candidates = iter([Path(told)]) if told else _usual_places(Path(__file__).resolve())
    return next((path.resolve() for path in candidates if path.is_file()), None)


def installed_omp_shim() -> Path | None:
    """The OpenMP shim of the distribution wattfold-shims, or None where that is not installed.

    What a source checkout has built is not meant: services take what an administrator installed.
    """
    places = _installed_places(Path(__file__).resolve())
    return next((path.resolve() for path in places if path.is_file()), None)


def _installed_places(module: Path) -> Iterator[Path]:
    yield module.parent / "lib" / OMP_SHIM_FILE
    # The distribution of the libraries goes where compiled packages go, which may be elsewhere.
    yield Path(sysconfig.get_path("platlib"), "wattfold", "shims", "lib", OMP_SHIM_FILE)


def _usual_places(module: Path) -> Iterator[Path]:
    yield from _installed_places(module)
    # <checkout>/runtime_shims/src/wattfold/shims/locate.py
    checkout = module.parents[4] if len(module.parents) > 4 else module.parent
    if (checkout / "runtime_shims" / "CMakeLists.txt").is_file():
        yield checkout / "build" / "shims" / OMP_SHIM_FILE
