"""Conversion of the options of `submit` into a checked job specification. Sends nothing."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import JOB_NAME_MAX, valid_job_name, valid_name
from wattfold.contract.soft_limits import CARRIED
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import SizeRange
from wattfold.coordinator.cli.shared.texts.native_text import message_text, native_text
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
    """Return the requested units; one for a restartable job with GPUs and without a size."""
    unsized = cores is None and nodes is None and units is None
    return SizeRange(least=1, greatest=1) if unsized and restarts else units


def unit_fields(
    unit: pb.SizeUnit, unit_cores: int | None, spreads: Sequence[str]
) -> tuple[int, pb.UnitSpread]:
    """Return the cores and the placement of units.

    Raises BadRequestError for a job without units.
    """
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
    """Return the requested mode. Default: `mask` for a job that is resized, `fixed` for others."""
    if word == CORES:
        return MODES["mask"]
    if word is not None:
        return MODES[word]
    return MODES["mask" if kind in RESIZED_KINDS else "fixed"]


def environment_of(
    caller: Mapping[str, str], export_all: bool, settings: Iterable[tuple[str, str | None]]
) -> dict[str, str]:
    """Return the job's environment: the caller's (all, or the bare minimum) with the settings."""
    names = caller if export_all else [name for name in MINIMAL_ENVIRONMENT if name in caller]
    environment = {name: caller[name] for name in names}
    for name, value in settings:
        if value is None and name not in caller:
            raise BadRequestError(
                f"--env {name}: this shell has no such variable; set it, or give {name}=VALUE"
            )
        environment[name] = caller[name] if value is None else value
    return environment


def message_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in the form for messages."""
    return {message_text(name): message_text(value) for name, value in environment.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCommand:
    """Command of a job as this machine would start it."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


def local_command(spec: pb.JobSpec) -> LocalCommand:
    """Return the command of a specification in the encoding of this process."""
    return LocalCommand(
        argv=tuple(map(native_text, spec.argv)),
        cwd=Path(native_text(spec.cwd)),
        env={native_text(name): native_text(value) for name, value in spec.env.items()},
    )


def umask() -> int:
    """Return the file mode creation mask of this process, as set by its shell."""
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
    """Return the base name of a program if it is a valid application name, else nothing."""
    base = os.path.basename(program)
    return base if valid_name(base) else ""


def default_job_name(program: str) -> str:
    """Return the base name of a program if it is a valid job name, else nothing."""
    base = os.path.basename(program)
    return base if valid_job_name(base) else ""


def directory(given: Path | None) -> Path:
    """Return the absolute working directory of the job."""
    try:
        return Path.cwd() / given if given else Path.cwd()
    except FileNotFoundError as error:
        raise BadRequestError(
            "the current directory no longer exists; change to another directory"
        ) from error


def check_name(option: str, name: str) -> None:
    """Refuse a name that is not valid for an application."""
    if name and not valid_name(name):
        raise BadRequestError(
            f"{option} {name!r} is not a valid name; use 1 to 63 characters of A-Z a-z 0-9 . _ - "
            "and begin with a letter or digit"
        )


def check_job_name(name: str) -> None:
    """Refuse a name that is not valid for a job."""
    if name and not valid_job_name(name):
        raise BadRequestError(
            f"--name {name[:JOB_NAME_MAX]!r} is not a valid name; use 1 to {JOB_NAME_MAX} "
            "printable characters"
        )


def check_command(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Refuse a command that does not exist in the job's directory and PATH."""
    program = argv[0]
    advice = "correct the command, or use --no-check if it exists only on the nodes"
    if os.sep in program:
        path = cwd / program
        if not path.is_file():
            raise BadRequestError(f"no such program: {path}; {advice}")
        if not os.access(path, os.X_OK):
            raise BadRequestError(f"not executable: {path}; run chmod +x on it, or use --no-check")
    elif shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
        if (cwd / program).is_file():
            advice = f"did you mean ./{program}, the file in {cwd}?"
        raise BadRequestError(f"command not found in the PATH of the job: {program!r}; {advice}")
