"""A file of jobs that grows by a row as each job ends, for runs too long to wait for.

It has the columns of `files.write_jobs`, in the order in which jobs end. A run that was stopped is
continued from the position it had noted: what was written after that is cut off and written again,
so that the file ends up with the bytes of a run that was never stopped. Plain CSV only: a gzip
stream cannot be cut.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from wattfold.coordinator.simulation.results.errors import ResultFileError
from wattfold.coordinator.simulation.results.job_columns import (
    PLAIN,
    Extra,
    JobRow,
    csv_header,
    csv_rows,
    row_columns,
)

_ROWS_HELD = 512
"""Rows kept back and then written at once."""


class JobStream:
    """An open file of jobs. Close it, or use it as a context; nothing is written by itself."""

    def __init__(self, path: Path, extra: Extra = PLAIN) -> None:
        """Starts a new file, in place of one that is there. Raises ResultFileError."""
        self._extra = extra
        self._open(path, "wb")
        self._write(csv_header(row_columns((), extra)))

    @classmethod
    def resume(cls, path: Path, at_byte: int, extra: Extra = PLAIN) -> Self:
        """Goes on with a file from a position it once gave.

        Raises ResultFileError where the file is shorter, has another header, or the position is
        not the end of a row.
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
        """Takes a row; it is in the file after the next `flush` at the latest."""
        self._held.append(row)
        if len(self._held) >= _ROWS_HELD:
            self._write_held()

    def flush(self) -> None:
        """Hands all rows to the operating system: others can read them."""
        self._write_held()
        try:
            self._file.flush()
        except OSError as error:
            raise _failed(self._path, error) from error

    def position(self) -> int:
        """Bytes up to here, all of them on the disk: where `resume` may go on."""
        self.flush()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _failed(self._path, error) from error
        return self._position

    def close(self) -> None:
        """Writes what is held back and closes the file; harmless the second time."""
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
