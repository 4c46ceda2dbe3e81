"""The emulated tree as real files, through FUSE, so that any program can read and write it.

The mounted folder looks like /sys/class/powercap: the control types contain their zones, and links
to all zones are next to them. Time follows the monotonic clock, at every access.

    python -m wattfold.nodeagent.emulation.fuse_tree FIXTURE FOLDER

mounts until SIGTERM, and prints ``ready`` on standard output. ``--load host`` follows the use of
this host's processors. It is a separate process, so that the emulated hardware outlives the agent.
"""

# ruff: noqa: ARG002 - the names and arguments of the methods are those that FUSE calls
from __future__ import annotations

import argparse
import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wattfold.nodeagent.emulation.fixtures import FixtureError, load_fixture
from wattfold.nodeagent.emulation.tree_model import TreeModel, failure

_TEXT_BYTES_MAX = 4096
_LOAD_NS = 500_000_000
_EXIT_USAGE = 2
_EXIT_FAILED = 1


class TreeFiles:
    """The operations of the file system. Called from several threads."""

    use_ns = True

    def __init__(self, model: TreeModel, load: Callable[[], float]) -> None:
        self._model = model
        self._load = load
        self._lock = threading.Lock()
        self._last_ns = time.monotonic_ns()
        self._loaded_ns = 0
        self._mounted_ns = time.time_ns()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return kind, permission bits and size; a page for attributes, as in sysfs."""
        with self._lock:
            self._pass_time()
            mode, size = self._mode(path)
        owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self._mounted_ns)
        return owner | times | {"st_mode": mode, "st_nlink": 1, "st_size": size}

    def readdir(self, path: str, fh: int) -> list[str]:
        """Return the entries of a folder."""
        with self._lock:
            self._pass_time()
            return [".", "..", *self._inside(path)]

    def readlink(self, path: str) -> str:
        """Return the target of the link to a zone: a path in its control type."""
        return _inner_path(path.strip("/"))

    def open(self, path: str, flags: int) -> int:
        """Open a file. No state is kept."""
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """Do nothing, because attributes are always replaced as a whole."""

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Return the value and a newline. Raises the errors of a real read."""
        folder, file = self._attribute(path)
        with self._lock:
            self._pass_time()
            text = self._model.read(folder, file)
        return f"{text}\n".encode()[offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Write a value in one piece. Raises the errors of a real write."""
        folder, file = self._attribute(path)
        with self._lock:
            self._pass_time()
            self._model.write(folder, file, data.decode("ascii", "replace"))
        return len(data)

    def _pass_time(self) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._loaded_ns >= _LOAD_NS:
            self._loaded_ns, self._model.load = now_ns, self._load()
        self._model.advance(now_ns - self._last_ns)
        self._last_ns = now_ns

    def _mode(self, path: str) -> tuple[int, int]:
        parts = path.strip("/").split("/")
        if parts == [""]:
            return stat.S_IFDIR | 0o755, 0
        if len(parts) == 1 and ":" in parts[0] and parts[0] in self._model.folders():
            return stat.S_IFLNK | 0o777, len(_inner_path(parts[0]))
        folder = self._folder(parts)
        if folder is not None:
            return stat.S_IFDIR | 0o755, 0
        folder, file = self._attribute(path)
        files = self._model.files(folder)
        if file not in files:
            raise failure(errno.ENOENT)
        return stat.S_IFREG | files[file], _TEXT_BYTES_MAX

    def _inside(self, path: str) -> list[str]:
        parts = path.strip("/").split("/")
        folders = self._model.folders()
        if parts == [""]:
            return folders
        folder = self._folder(parts)
        if folder is None:
            raise failure(errno.ENOENT)
        below = [f for f in folders if f.rpartition(":")[0] == folder and f != folder]
        return [*self._model.files(folder), *below]

    def _folder(self, parts: list[str]) -> str | None:
        """Return the zone or control type of a path without links; None if it is no such path."""
        folder = parts[-1]
        real = folder in self._model.folders() and "/".join(parts) == _inner_path(folder)
        return folder if real else None

    def _attribute(self, path: str) -> tuple[str, str]:
        *parts, file = path.strip("/").split("/")
        folder = self._folder(parts) if parts else None
        if folder is None:
            raise failure(errno.ENOENT)
        return folder, file


def _inner_path(folder: str) -> str:
    """Return the path: intel-rapl:0:1 is in intel-rapl/intel-rapl:0/intel-rapl:0:1."""
    parts = folder.split(":")
    return "/".join(":".join(parts[: n + 1]) for n in range(len(parts)))


def mount(
    model: TreeModel, folder: Path, load: Callable[[], float], *, names_kept_s: float = 0.0
) -> None:
    """Serve the tree until it is unmounted or the process gets SIGTERM. Raises OSError.

    For ``names_kept_s`` the kernel keeps that a file is there, and its mode. Zones may disappear by
    themselves, so by default it asks at each access, for each folder of the path.
    """
    # Needs libfuse of the system, which only a process that mounts must have.
    try:
        import mfusepy
    except (ImportError, OSError) as error:
        raise OSError(f"emulated zones need mfusepy and libfuse: {error}") from None

    class Operations(TreeFiles, mfusepy.Operations):
        """TreeFiles with the names and defaults that the library requires."""

        def init(self, path: str) -> None:
            """Report that the tree is mounted, so that the starting process can continue."""
            print("ready", flush=True)

    # Access rights are those of sysfs. Values are never cached.
    options = {"allow_other": True} if os.geteuid() == 0 else {}
    try:
        mfusepy.FUSE(
            Operations(model, load),
            str(folder),
            foreground=True,
            direct_io=True,
            default_permissions=True,
            attr_timeout=names_kept_s,
            entry_timeout=names_kept_s,
            negative_timeout=0,
            fsname="wattfold-powercap",
            **options,
        )
    except RuntimeError as error:
        raise OSError(f"{folder} cannot be mounted by FUSE (status {error})") from None


def unmount(folder: Path) -> None:
    """Unmount a tree, even if its process was killed."""
    for command in (["fusermount3", "-u", "-z"], ["fusermount", "-u", "-z"], ["umount", "-l"]):
        try:
            if subprocess.run([*command, str(folder)], capture_output=True).returncode == 0:
                return
        except FileNotFoundError:
            continue


class HostLoad:
    """The used share of this host's processor time since the previous call."""

    def __init__(self, stat_file: Path = Path("/proc/stat")) -> None:
        self._file = stat_file
        self._last = self._read()

    def __call__(self) -> float:
        """Return the share, 0 to 1; 0 before any time has passed."""
        before, self._last = self._last, self._read()
        total, idle = self._last[0] - before[0], self._last[1] - before[1]
        return 1 - idle / total if total > 0 else 0.0

    def _read(self) -> tuple[int, int]:
        # user nice system idle iowait ...; see proc(5).
        ticks = [int(t) for t in self._file.read_text().split("\n")[0].split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]


def tree_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="wattfold-powercap-tree",
        description="Mount a powercap tree that behaves like the tree of another machine.",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help="Print this help.")
    parser.add_argument("fixture", help="Name of a shipped machine, or path of a TOML file.")
    parser.add_argument("folder", type=Path, help="Empty directory to mount the tree on.")
    parser.add_argument(
        "--load",
        help="Load of the emulated machine, from 0 to 1, or host for the load of this host."
        " Default: load of the machine file.",
    )
    return parser


def main(arguments: list[str]) -> int:
    """Mount a fixture until SIGTERM. Returns the exit status."""
    given = tree_parser().parse_args(arguments)
    try:
        model = TreeModel(load_fixture(given.fixture).machine)
        constant = model.load if given.load in (None, "host") else float(given.load)
        load = HostLoad() if given.load == "host" else lambda: constant
        mount(model, given.folder, load)
    except (FixtureError, ValueError) as error:
        print(f"wattfold-powercap-tree: {error}", file=sys.stderr)
        return _EXIT_USAGE
    except OSError as error:
        print(f"wattfold-powercap-tree: {error}", file=sys.stderr)
        return _EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
