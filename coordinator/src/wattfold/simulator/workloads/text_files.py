"""Reader of small text files, plain or gzip, as detected from the first bytes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from wattfold.simulator.workloads.errors import LogError


def whole_text(path: Path) -> str:
    """Return the text of a file. Raises LogError."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise LogError(path, 0, f"broken data: {error}") from error
    except OSError as error:
        raise LogError(path, 0, f"cannot be read: {error.strerror or error}") from error
