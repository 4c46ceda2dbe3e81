"""From the options of `submit` to a checked job specification. Sends nothing."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from wattfold.contract.ids import valid_name
from wattfold.contract.soft_limits import CARRIED
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import SizeRange
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

KINDS = {
    "rigid": pb.JOB_KIND_RIGID,
    "moldable": pb.JOB_KIND_MOLDABLE,
    "malleable": pb.JOB_KIND_MALLEABLE,
    "evolving": pb.JOB_KIND_EVOLVING,
}
MODES = {
    "mask": common.RESIZE_MODE_MASK,
    "team": common.RESIZE_MODE_TEAM,
    "map": common.RESIZE_MODE_MAP,
    "rebuild": common.RESIZE_MODE_REBUILD,
    "restart": common.RESIZE_MODE_RESTART,
    "fixed": common.RESIZE_MODE_FIXED,
}
CORES = "cores"
WAYS = ("map", "rebuild", "restart", CORES, "team", "mask", "fixed")
"""Values of `--resize`. With `cores`, the certificate of the program chooses team or mask."""
SHARES = {
    "lend": pb.CORE_SHARING_LEND,
    "borrow": pb.CORE_SHARING_BORROW,
    "both": pb.CORE_SHARING_BOTH,
    "no": pb.CORE_SHARING_NO,
}
RESIZED_KINDS = frozenset({pb.JOB_KIND_MALLEABLE, pb.JOB_KIND_EVOLVING})
MINIMAL_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG")


SPREADS = {
    "any": pb.UNIT_SPREAD_ANY,
    "together": pb.UNIT_SPREAD_TOGETHER,
    "apart": pb.UNIT_SPREAD_APART,
}


def size_of(
    cores: SizeRange | None, nodes: SizeRange | None, units: SizeRange | None = None
) -> tuple[pb.SizeUnit, SizeRange]:
    """Return the unit of the size and its range. Default: one core."""
    if sum(size is not None for size in (cores, nodes, units)) > 1:
        raise BadRequestError(
            "--cores, --nodes and --units exclude each other; give only one option"
        )
    if units:
        return pb.SIZE_UNIT_UNITS, units
    if nodes:
        return pb.SIZE_UNIT_NODES, nodes
    return pb.SIZE_UNIT_CORES, cores or SizeRange(least=1, greatest=1)


def gpu_units(
    cores: SizeRange | None, nodes: SizeRange | None, units: SizeRange | None, restarts: bool
) -> SizeRange | None:
    """The units asked for; of a job with GPUs that names no size and is started again, one."""
    unsized = cores is None and nodes is None and units is None
    return SizeRange(least=1, greatest=1) if unsized and restarts else units


def unit_fields(
    unit: pb.SizeUnit, unit_cores: int | None, spreads: Sequence[str]
) -> tuple[int, pb.UnitSpread]:
    """Cores of a unit and where units may be. Raises BadRequestError where there are none."""
    if len(set(spreads)) > 1:
        raise BadRequestError(
            f"--spread {' and '.join(sorted(set(spreads)))} exclude each other; give only one"
        )
    if unit != pb.SIZE_UNIT_UNITS:
        if unit_cores or spreads:
            raise BadRequestError("--unit-cores and --spread need --units; add --units N")
        return 0, pb.UNIT_SPREAD_UNSPECIFIED
    return unit_cores or 1, SPREADS[spreads[0] if spreads else "any"]


def kind_of(
    word: str | None,
    size: SizeRange,
    share: str | None = None,
    unit: pb.SizeUnit = pb.SIZE_UNIT_CORES,
) -> pb.JobKind:
    """Return the requested kind. Default: malleable for a range or with sharing, or else rigid.

    A range of units is moldable, as units stay where they start.
    """
    if word is None and unit == pb.SIZE_UNIT_UNITS:
        return pb.JOB_KIND_MOLDABLE if size.is_range else pb.JOB_KIND_RIGID
    if word is None:
        resized = size.is_range or share not in (None, "no")
        return pb.JOB_KIND_MALLEABLE if resized else pb.JOB_KIND_RIGID
    if word == "rigid" and size.is_range:
        raise BadRequestError(
            f"a rigid job has one size, got {size.least}-{size.greatest}; give one number, "
            "or --kind moldable or malleable"
        )
    return KINDS[word]


def mode_of(word: str | None, kind: pb.JobKind) -> common.ResizeMode:
    """The mode asked for; without a word `mask` for a job that is resized, `fixed` for others."""
    if word == CORES:
        return MODES["mask"]
    if word is not None:
        return MODES[word]
    return MODES["mask" if kind in RESIZED_KINDS else "fixed"]


def environment_of(
    caller: Mapping[str, str], export_all: bool, settings: Iterable[tuple[str, str | None]]
) -> dict[str, str]:
    """The job's environment: the caller's (all, or the bare minimum) and the settings over it."""
    names = caller if export_all else [name for name in MINIMAL_ENVIRONMENT if name in caller]
    environment = {name: caller[name] for name in names}
    for name, value in settings:
        if value is None and name not in caller:
            raise BadRequestError(
                f"--env {name}: this shell has no such variable; set it, or give {name}=VALUE"
            )
        environment[name] = caller[name] if value is None else value
    for name, value in environment.items():
        _check_text(value, f"the environment variable {name}", "unset it, or use --export none")
    return environment


def umask() -> int:
    """The file mode creation mask of this process, as its shell has set it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def soft_limits() -> list[common.ResourceLimit]:
    """Return the soft limits of this process that its job inherits."""
    found = []
    for name in CARRIED:
        soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        limited = soft != resource.RLIM_INFINITY
        found.append(common.ResourceLimit(name=name, soft=soft if limited else None))
    return found


def program_name(program: str) -> str:
    """The base name of a program if it can name a job, else nothing."""
    base = os.path.basename(program)
    return base if valid_name(base) else ""


def directory(given: Path | None) -> Path:
    """The absolute working directory of the job."""
    try:
        return Path.cwd() / given if given else Path.cwd()
    except FileNotFoundError as error:
        raise BadRequestError(
            "the current directory no longer exists; change to another directory"
        ) from error


def check_name(option: str, name: str) -> None:
    """Refuses what cannot name a job or an application."""
    if name and not valid_name(name):
        raise BadRequestError(
            f"{option} {name!r} is not a valid name; use 1 to 63 characters of A-Z a-z 0-9 . _ - "
            "and begin with a letter or digit"
        )


def check_command(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Refuses a command that is not there, seen from the job's directory and PATH."""
    for word in argv:
        _check_text(word, f"the argument {word!r}", "rename the file")
    program = argv[0]
    advice = "correct the command, or use --no-check if it exists only on the nodes"
    if os.sep in program:
        path = cwd / program
        if not path.is_file():
            raise BadRequestError(f"no such program: {path}; {advice}")
        if not os.access(path, os.X_OK):
            raise BadRequestError(f"not executable: {path}; run chmod +x on it, or use --no-check")
    elif shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
        raise BadRequestError(f"command not found in the PATH of the job: {program!r}; {advice}")


def _check_text(text: str, what: str, advice: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequestError(f"{what} is not UTF-8 text and cannot be sent; {advice}") from error
