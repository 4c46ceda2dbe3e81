"""Download of a file over HTTP: resumable, checked, and complete or absent.

Received data is in ``NAME.part`` and survives an interruption. ``NAME.part.tag`` holds the server's
tag of its version (ETag or date), so that two versions are never joined. A complete file gets its
name only after a check of its known checksum, or else of its gzip data. Its checksum is
then kept in ``NAME.sha256`` in the format of sha256sum(1).
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import http.client
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wattfold.simulator.workloads.errors import FetchError

_CHUNK = 1 << 16
_TIMEOUT_S = 30.0
_FRUITLESS_TRIES = 3
"""Number of consecutive connections without data before the download fails."""
_MAX_BYTES = 1 << 32
_OFFLINE = "check the network, give --mirror URL, or copy the log into the folder"
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)\Z")
_SUM = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int, int | None], None]
"""Called with the received bytes and the total bytes, None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A downloaded file."""

    path: Path
    sha256: str
    size: int
    was_there: bool
    """Whether the file existed, so that nothing was downloaded."""
    learnt: bool
    """Whether no checksum was known for comparison."""


def fetch(
    url: str, target: Path, sha256: str | None = None, progress: Progress | None = None
) -> Fetched:
    """Download a file to ``target``, whose folder must exist.

    The checksum is compared with the argument, or else with the recorded sum of an earlier
    download.

    Raises:
        FetchError: address, server, disk or checksum; received data stays for the next attempt
            unless the checksum is wrong.
    """
    if not url.startswith(("http://", "https://")):
        raise FetchError(f"not an http or https address: {url}")
    try:
        expected = sha256 or _recorded(target)
        if target.exists():
            return _present(target, expected)
        part = _sibling(target, ".part")
        with part.open("ab+") as stream:
            _lock(stream, target)
            try:
                _Transfer(url, stream, _sibling(target, ".part.tag"), progress).run()
            finally:
                if not stream.seek(0, 2):
                    part.unlink()
            stream.flush()
            digest = _checked(url, part, expected)
            part.rename(target)
        _sibling(target, ".part.tag").unlink(missing_ok=True)
        _record(target, digest)
    except OSError as error:
        raise FetchError(f"{target}: {error.strerror or error}") from error
    return Fetched(
        path=target,
        sha256=digest,
        size=target.stat().st_size,
        was_there=False,
        learnt=expected is None,
    )


def _sibling(target: Path, ending: str) -> Path:
    return target.with_name(target.name + ending)


def _recorded(target: Path) -> str | None:
    record = _sibling(target, ".sha256")
    if not record.exists():
        return None
    match = _SUM.match(record.read_text(encoding="ascii", errors="replace"))
    if match is None:
        raise FetchError(f"{record}: holds no SHA-256 sum; remove it to learn the sum again")
    return match[0]


def _record(target: Path, digest: str) -> None:
    _sibling(target, ".sha256").write_text(f"{digest}  {target.name}\n", encoding="utf-8")


def _present(target: Path, expected: str | None) -> Fetched:
    digest = _digest(target)
    if expected is not None and digest != expected:
        raise FetchError(
            f"{target}: has SHA-256 {digest}, expected {expected}; remove it to download it again"
        )
    _record(target, digest)
    return Fetched(
        path=target,
        sha256=digest,
        size=target.stat().st_size,
        was_there=True,
        learnt=expected is None,
    )


def _lock(stream: BinaryIO, target: Path) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FetchError(f"{target}: another process is downloading it") from error


class _Transfer:
    """Connections to one address until the file is complete."""

    def __init__(
        self, url: str, stream: BinaryIO, tag_path: Path, progress: Progress | None
    ) -> None:
        self._url = url
        self._stream = stream
        self._tag_path = tag_path
        self._progress = progress

    def run(self) -> None:
        """Download all bytes. Raises FetchError."""
        fruitless = 0
        while True:
            before = self._size()
            try:
                if self._connection(before):
                    return
                problem = "the connection ended early"
            except (OSError, http.client.HTTPException) as error:
                problem = _reason(error)
            fruitless = 0 if self._size() > before else fruitless + 1
            if fruitless >= _FRUITLESS_TRIES:
                kept = self._size()
                raise FetchError(
                    f"{self._url}: {problem}; "
                    + (f"{kept} bytes are kept for the next try" if kept else _OFFLINE)
                )

    def _size(self) -> int:
        return self._stream.seek(0, 2)

    def _connection(self, offset: int) -> bool:
        """Send one request from an offset on; return whether the file is now complete."""
        headers = {"User-Agent": "wattfold", "Accept-Encoding": "identity"}
        # Without a tag, the rest may belong to another version, so the whole file is requested.
        tag = self._tag() if offset else None
        if tag:
            headers |= {"Range": f"bytes={offset}-", "If-Range": tag}
        request = urllib.request.Request(self._url, headers=headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                return self._receive(answer, offset)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and offset:
                self._start_again()
                return False
            raise FetchError(f"{self._url}: the server says {error.code} {error.reason}") from error

    def _receive(self, answer: http.client.HTTPResponse, offset: int) -> bool:
        total = self._total(answer, offset)
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            offset = self._start_again()
        tag = answer.headers.get("ETag", "")
        if not tag or tag.startswith("W/"):  # a weak tag is not valid for parts
            tag = answer.headers.get("Last-Modified", "")
        if tag:
            self._tag_path.write_text(tag, encoding="latin-1")
        while chunk := answer.read1(_CHUNK):
            self._stream.write(chunk)
            offset += len(chunk)
            if offset > _MAX_BYTES:
                raise FetchError(f"{self._url}: more than {_MAX_BYTES} bytes")
            if self._progress:
                self._progress(offset, total)
        return total is None or offset == total

    def _total(self, answer: http.client.HTTPResponse, offset: int) -> int | None:
        """Return the bytes of the whole file.

        Raises FetchError for a part that was not requested.
        """
        if answer.status == http.HTTPStatus.PARTIAL_CONTENT:
            match = _RANGE.match(answer.headers.get("Content-Range", ""))
            if match is None or int(match[1]) != offset:
                raise FetchError(f"{self._url}: the server sent a different part than requested")
            return None if match[2] == "*" else int(match[2])
        length = answer.headers.get("Content-Length", "")
        return int(length) if length.isdecimal() else None

    def _start_again(self) -> int:
        self._stream.truncate(0)
        self._tag_path.unlink(missing_ok=True)
        return 0

    def _tag(self) -> str | None:
        try:
            return self._tag_path.read_text(encoding="latin-1").strip() or None
        except FileNotFoundError:
            return None


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    text = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return " ".join(text.split()) or type(error).__name__


def _checked(url: str, part: Path, expected: str | None) -> str:
    """Return the checksum of a complete file; a file with a wrong checksum is removed."""
    digest = _digest(part)
    if expected is None:
        problem = _gzip_problem(part) if url.endswith(".gz") else None
    else:
        problem = None if digest == expected else f"SHA-256 is {digest}, expected {expected}"
    if problem:
        part.unlink()
        raise FetchError(f"{url}: {problem}; the file was removed")
    return digest


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _gzip_problem(path: Path) -> str | None:
    """Return the error in gzip data; the first download has no checksum to compare with."""
    try:
        with gzip.open(path, "rb") as stream:
            while stream.read(_CHUNK):
                pass
    except (OSError, EOFError, zlib.error) as error:
        return f"not whole gzip data ({error})"
    return None
