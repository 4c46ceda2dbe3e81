"""Search for what is built from C: named by the environment, installed, or in a source checkout.

The shim library is not loaded here: it works inside other programs, through LD_PRELOAD. The keeper
is a program that the agent executes for each job.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

OMP_SHIM_FILE = "libwattfold_omp.so"
OMP_SHIM_VARIABLE = "WATTFOLD_OMP_SHIM"
KEEPER_FILE = "wattfold-keeper"


def find_omp_shim(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the absolute path of the OpenMP shim, or None.

    ``WATTFOLD_OMP_SHIM`` takes precedence without a fallback: if it names no file, the result is
    None.
    """
    told = (os.environ if environment is None else environment).get(OMP_SHIM_VARIABLE)
    candidates = iter([Path(told)]) if told else _usual_places(OMP_SHIM_FILE)
    return next((path.resolve() for path in candidates if path.is_file()), None)


def installed_omp_shim() -> Path | None:
    """Return the OpenMP shim of the distribution wattfold-shims, or None if it is not installed.

    Builds in a source checkout do not count: services use only files that an administrator
    installed.
    """
    places = _installed_places(OMP_SHIM_FILE)
    return next((path.resolve() for path in places if path.is_file()), None)


def find_keeper() -> Path | None:
    """Return the absolute path of the keeper, or None.

    In a checkout it is the built one: an agent that runs from a checkout trusts its files anyway.
    """
    return next((path.resolve() for path in _usual_places(KEEPER_FILE) if path.is_file()), None)


def _installed_places(file: str) -> Iterator[Path]:
    yield Path(__file__).resolve().parent / "lib" / file
    # The distribution of compiled files goes where compiled packages go, which may be elsewhere.
    yield Path(sysconfig.get_path("platlib"), "wattfold", "shims", "lib", file)


def _usual_places(file: str) -> Iterator[Path]:
    yield from _installed_places(file)
    # <checkout>/runtime_shims/src/wattfold/shims/locate.py
    module = Path(__file__).resolve()
    checkout = module.parents[4] if len(module.parents) > 4 else module.parent
    if (checkout / "runtime_shims" / "CMakeLists.txt").is_file():
        yield checkout / "build" / "shims" / file
