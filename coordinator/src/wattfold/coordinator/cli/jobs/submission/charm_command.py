"""The command of a Charm++ job of mode map or rebuild, with the options that resizing needs.

The user states the program as without Wattfold: `rod.py 400`, `python3 rod.py 400` or `./charmrun
./rod 400`. The added options start a server for the agent, one PE for each core of the maximum
size, and the balancer for processor maps. In mode rebuild they prepare a restart at another size
instead. Missing features of the build are reported before the submission.

Other commands stay unchanged, such as scripts that start the program with these options. Their
faults are shown while they run (`wattfold show`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.coordinator.cli.jobs.submission.job_request import local_command
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb

STARTER = "wattfold.shims.charm_start"
BALANCER = "WattfoldLB"
_START = ("-m", STARTER)
_HANDLER, _RESTARTS = b"getmap_wattfold", b"set_bitmap"
_HONOURING = ("RecBipartLB", "MetisLB")
"""Balancers of Charm++ 8 that vacate the processors which a restart will no longer use."""
_CHUNK = 1 << 20
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?$")
_PROBE = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
_PROBE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CharmCommand:
    """A command line. ``warning``: its possible deficiency, empty = none."""

    argv: tuple[str, ...]
    warning: str = ""


def charm_command(spec: pb.JobSpec, *, checked: bool) -> CharmCommand:
    """Return the completed command. Raises BadRequestError if the build lacks a feature."""
    argv = local_command(spec).argv
    if STARTER in argv or any(word.endswith("charm_start.py") for word in argv):
        return CharmCommand(argv=argv)
    if os.path.basename(argv[0]) == "charmrun":
        return _compiled(argv, spec, checked)
    if _PYTHON.match(os.path.basename(argv[0])):
        # A command with its own options is left unchanged, because its program is unknown.
        return _python(argv[0], argv[1:], spec, checked) if _is_program(argv[1:2]) else _as_is(argv)
    return _python(sys.executable, argv, spec, checked) if _is_program(argv[:1]) else _as_is(argv)


def _as_is(argv: tuple[str, ...]) -> CharmCommand:
    return CharmCommand(argv=argv)


def _is_program(words: Sequence[str]) -> bool:
    return bool(words) and words[0].endswith(".py")


def _python(python: str, program: tuple[str, ...], spec: pb.JobSpec, checked: bool) -> CharmCommand:
    warning = ""
    if spec.mode == common.RESIZE_MODE_REBUILD:
        raise BadRequestError(
            f"{program[0]}: the Charm++ in charm4py is built without --enable-shrinkexpand, so it "
            "cannot restart itself at another size; use --resize map, or --resize restart if the "
            "program writes snapshots"
        )
    if checked:
        _check_modules(python, spec)
        text = _text(local_command(spec).cwd / program[0])
        if "follow_map" not in text:
            warning = (
                f"{program[0]} does not contain follow_map; without a call of follow_map "
                "(wattfold.shims.charm_map) the job keeps its PEs"
            )
    return CharmCommand(argv=(python, *_START, "--charm4py", *program), warning=warning)


def _check_modules(python: str, spec: pb.JobSpec) -> None:
    command = local_command(spec)
    found = python if os.sep in python else shutil.which(python, path=command.env.get("PATH"))
    if found is None:
        return  # A missing command is reported elsewhere.
    try:
        lacks = subprocess.run(
            [found, "-c", _PROBE, "charm4py", "wattfold.shims"],
            cwd=command.cwd,
            env=command.env,
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return
    if lacks:
        raise BadRequestError(
            f"{found} lacks charm4py or wattfold.shims, which Charm++ jobs in Python need; run "
            "pip install 'wattfold[charm]', or use --no-check if only the nodes have them"
        )


def _compiled(argv: tuple[str, ...], spec: pb.JobSpec, checked: bool) -> CharmCommand:
    words = list(argv)
    cwd = local_command(spec).cwd
    program = next((word for word in argv[1:] if _executable(cwd / word)), "")
    path = cwd / program if checked and program else None
    one_node = spec.unit != pb.SIZE_UNIT_NODES
    if spec.mode == common.RESIZE_MODE_REBUILD:
        return _rebuilt(words, path)
    takes_maps = path is None or _contains(path, _HANDLER)
    if path is not None and not takes_maps:
        if one_node and _contains(path, _RESTARTS):
            return _rebuilt(words, path)
        raise BadRequestError(
            f"{program} does not accept processor maps; link it with -module {BALANCER} (see "
            "runtime_shims/charm/README.md), or, on one node, use --resize rebuild with a Charm++ "
            "built with --enable-shrinkexpand"
        )
    if one_node and "++local" not in words:
        words.insert(1, "++local")
    if takes_maps and "+balancer" not in words:
        words += ["+balancer", BALANCER]
    return CharmCommand(argv=(sys.executable, *_START, "--", *words))


def _rebuilt(words: list[str], path: Path | None) -> CharmCommand:
    """Return the command of a program whose runtime restarts it; ``path`` None: no check."""
    if path is not None and not _contains(path, _RESTARTS):
        raise BadRequestError(
            f"{path.name} lacks set_bitmap and cannot restart itself at another size; build "
            "Charm++ with `./build charm++ netlrts-linux-x86_64 --enable-shrinkexpand` (not smp) "
            "and link the program again, or use --resize map or restart"
        )
    if "++local" in words:
        raise BadRequestError(
            "++local does not work with --resize rebuild: restarted processes inherit the socket "
            "of the server and cannot listen; omit it, the processes start on this node anyway"
        )
    if "+balancer" not in words:
        able = [one for one in _HONOURING if path is None or _contains(path, one.encode())]
        if not able:
            raise BadRequestError(
                f"no linked load balancer can vacate processors; link the program with -module "
                f"{' or -module '.join(_HONOURING)}, or choose a balancer with +balancer NAME"
            )
        words += ["+balancer", able[0]]
    return CharmCommand(argv=(sys.executable, *_START, "--rebuild", "--", *words))


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _contains(path: Path, word: bytes) -> bool:
    """Whether a file contains a word. An unreadable file is assumed to contain it."""
    try:
        with path.open("rb") as file:
            tail = b""
            while chunk := file.read(_CHUNK):
                if word in tail + chunk:
                    return True
                tail = chunk[-len(word) :]
    except OSError:
        return True
    return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "follow_map"  # It may exist on the nodes only.
