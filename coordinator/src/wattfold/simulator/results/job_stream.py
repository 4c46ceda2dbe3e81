"""File of jobs that grows by a row as each job ends, for long runs.

It has the columns of `files.write_jobs`, with rows in the order in which jobs end. A stopped run
continues from its saved position: later rows are cut off and written again. So the file has the
same bytes as after an uninterrupted run. It must be plain CSV, because a gzip stream cannot be cut.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from wattfold.simulator.results.errors import ResultFileError
from wattfold.simulator.results.job_columns import (
    PLAIN,
    Extra,
    JobRow,
    csv_header,
    csv_rows,
    row_columns,
)

_ROWS_HELD = 512
"""Number of rows that are buffered and then written at once."""


class JobStream:
    """An open file of jobs. Close it, or use it as a context, to write buffered rows."""

    def __init__(self, path: Path, extra: Extra = PLAIN) -> None:
        """Create a new file, which replaces an existing file. Raises ResultFileError."""
        self._extra = extra
        self._open(path, "wb")
        self._write(csv_header(row_columns((), extra)))

    @classmethod
    def resume(cls, path: Path, at_byte: int, extra: Extra = PLAIN) -> Self:
        """Continue a file from an earlier position.

        Raises ResultFileError if the file is shorter, has another header, or the position is not
        the end of a row.
        """
        header = csv_header(row_columns((), extra))
        stream = cls.__new__(cls)
        stream._extra = extra
        stream._open(path, "r+b")
        try:
            problem = _problem(stream._file, header, at_byte)
            if problem:
                raise ResultFileError(path, 0, problem)
            stream._file.truncate(at_byte)
            stream._file.seek(at_byte)
        except OSError as error:
            stream._file.close()
            raise _failed(path, error) from error
        except ResultFileError:
            stream._file.close()
            raise
        stream._position = at_byte
        return stream

    def append(self, row: JobRow) -> None:
        """Add a row; it is in the file after the next `flush` at the latest."""
        self._held.append(row)
        if len(self._held) >= _ROWS_HELD:
            self._write_held()

    def flush(self) -> None:
        """Pass all rows to the operating system, so that other processes can read them."""
        self._write_held()
        try:
            self._file.flush()
        except OSError as error:
            raise _failed(self._path, error) from error

    def position(self) -> int:
        """Return the number of bytes so far, all of them on disk, as a position for `resume`."""
        self.flush()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _failed(self._path, error) from error
        return self._position

    def close(self) -> None:
        """Write buffered rows and close the file; a second call has no effect."""
        if self._file.closed:
            return
        try:
            self.flush()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, path: Path, mode: str) -> None:
        if path.suffix != ".csv":
            raise ResultFileError(path, 0, "a file that grows must be plain CSV, named .csv")
        self._path = path
        self._position = 0
        self._held: list[JobRow] = []
        try:
            self._file: IO[bytes] = path.open(mode)
        except OSError as error:
            raise _failed(path, error) from error

    def _write_held(self) -> None:
        if self._held:
            rows, self._held = self._held, []
            self._write(csv_rows(row_columns(rows, self._extra)))

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise _failed(self._path, error) from error
        self._position += len(data)


def _problem(file: IO[bytes], header: bytes, at_byte: int) -> str:
    size = file.seek(0, os.SEEK_END)
    if not len(header) <= at_byte <= size:
        return f"cannot be continued at byte {at_byte}: it has {size}, {len(header)} of them header"
    file.seek(0)
    if file.read(len(header)) != header:
        return "cannot be continued: its columns differ"
    file.seek(at_byte - 1)
    return "" if file.read(1) == b"\n" else f"byte {at_byte} is not the end of a row"


def _failed(path: Path, error: OSError) -> ResultFileError:
    return ResultFileError(path, 0, f"cannot be written: {error.strerror or error}")
