"""Writer of workloads in the Standard Workload Format, plain or gzip by the file name.

The same workload gives the same bytes: the gzip member holds neither a name nor a time. A file
appears complete or not at all. The format has no place for IDs of job arrays, so they are not
written.
"""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.workload import COLUMNS, Workload

_ROWS_AT_ONCE = 20_000


def write_swf(workload: Workload, path: Path) -> None:
    """Write header and jobs; ``MaxJobs`` and ``MaxRecords`` state the number of jobs.

    Raises LogError if the file cannot be written.
    """
    header = workload.header.with_value("MaxJobs", len(workload))
    header = header.with_value("MaxRecords", len(workload))
    with whole_file(path) as stream:
        stream.write("".join(f"{line}\n" for line in header.lines).encode())
        for start in range(0, len(workload), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            columns = [_texts(getattr(workload, name)[part]) for name in COLUMNS]
            rows = map(" ".join, zip(*columns, strict=True))
            stream.write(("\n".join(rows) + "\n").encode())


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when it is complete; gzip for names that end in ``.gz``.

    A target that is not a regular file (a pipe, standard output) is written directly and never
    replaced. Raises LogError if the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as raw, _packed(raw, path) as stream:
                yield stream
            return
        target = path.resolve()
        temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}")
        try:
            with temporary.open("xb") as raw, _packed(raw, path) as stream:
                yield stream
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise LogError(path, 0, f"cannot be written: {error.strerror or error}") from error


@contextmanager
def _packed(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".gz":
        yield raw
        return
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        yield cast(IO[bytes], packed)


def number_text(value: float) -> str:
    """Return the shortest text that parses to the same number."""
    return str(int(value)) if value == int(value) else repr(value)


def _texts(column: NDArray[np.generic]) -> list[str]:
    if column.dtype == np.int64:
        return [str(value) for value in column.tolist()]
    return [number_text(value) for value in column.tolist()]
