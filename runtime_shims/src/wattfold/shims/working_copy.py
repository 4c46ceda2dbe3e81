"""Private copy of the working folder of a program, shared by its consecutive runs.

It is created once. Before each run it is restored: only files that a run has changed, added or
removed are copied or deleted. Sockets, pipes and devices are not copied: they belong to other
running programs.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Signature = tuple[int, int, int, int, int]


class WorkingCopy:
    """The copy of ``source`` in ``folder``."""

    def __init__(self, source: Path, folder: Path) -> None:
        """Raises OSError if a file cannot be copied."""
        self._source, self.folder = source.resolve(), folder
        self._made: dict[Path, Signature] = {}
        self._copy(Path())
        del self._made[Path()]

    def restore(self) -> None:
        """Undo all changes of a run. Raises OSError."""
        for place, folders, files in os.walk(self.folder, topdown=False):
            for name in (*folders, *files):
                path = (Path(place) / name).relative_to(self.folder)
                if not self._is_there(path):
                    _remove(self.folder / path)
        for path in sorted(self._made):
            # A folder is copied with its whole content.
            if not self._is_there(path):
                self._copy(path)

    def _is_there(self, path: Path) -> bool:
        target = self.folder / path
        return os.path.lexists(target) and self._made.get(path) == _signature(target)

    def _copy(self, path: Path) -> None:
        source, target = self._source / path, self.folder / path
        kind = source.lstat().st_mode
        try:
            if stat.S_ISLNK(kind):
                target.symlink_to(os.readlink(source))
            elif stat.S_ISREG(kind):
                shutil.copy2(source, target)
            elif stat.S_ISDIR(kind):
                target.mkdir(exist_ok=True)
                for name in sorted(os.listdir(source)):
                    self._copy(path / name)
                target.chmod(stat.S_IMODE(kind) | stat.S_IRWXU)
            else:
                return
        except OSError as error:
            # Errors of its content have been reported with their own names.
            if error.filename is None:
                error.filename = str(source)
            raise
        self._made[path] = _signature(target)


def _signature(path: Path) -> Signature:
    """Return a value that changes with every change of a file, or of a folder's permissions."""
    seen = path.lstat()
    if stat.S_ISDIR(seen.st_mode):
        return seen.st_mode, seen.st_ino, 0, 0, 0
    return seen.st_mode, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextmanager
def working_copy(source: Path) -> Iterator[WorkingCopy]:
    """Yield a copy that is deleted at the end. Raises OSError if a file cannot be copied."""
    with tempfile.TemporaryDirectory(prefix="wf-certify-") as name:
        yield WorkingCopy(source, Path(name) / "run")
