"""Parser of the lines of a Standard Workload Format file, a block at a time.

If every row of a block of a mebibyte has eighteen plain numbers, one call of numpy parses it.
Blocks with an invalid row are parsed line by line. The first bytes distinguish plain text from
gzip. The meaning of the values is checked in `swf_rules`.
"""

from __future__ import annotations

import gzip
import math
import re
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.header import decoded, printable
from wattfold.simulator.workloads.odd_rows import (
    FaultKind,
    OddRowPolicy,
    OddRowReport,
    RowOutcome,
    Treatment,
)
from wattfold.simulator.workloads.workload import COLUMNS, MISSING, Floats, Ints

FIELDS = len(COLUMNS)
LEAST_FIELDS = 4
"""ID, submit, wait and run time: fewer fields do not describe a job."""
LARGEST = float(2**52)
"""Half of the largest exact integer of a double, so that new IDs above it remain exact."""
_BLOCK_BYTES = 1 << 20
_LINE_BYTES = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN = 40
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_ELEMENT = re.compile(rb"(\d{1,15})(?:_(\d{1,9})|\[(\d{1,9})\])\Z")
_SPACE = np.zeros(256, dtype=np.bool_)
_SPACE[[9, 10, 11, 12, 13, 32]] = True


@dataclass(slots=True)
class RawRows:
    """Rows of a block or a file: numbers, their lines, and IDs of job arrays."""

    values: Floats
    """Shape (rows, 18)."""
    lines: Ints
    array_ids: Ints


class LineReader:
    """Reader of a file by blocks. It collects comments in `comments`, faults in `report`."""

    def __init__(self, path: Path, policy: OddRowPolicy, report: OddRowReport) -> None:
        self.comments: list[str] = []
        self._path = path
        self._policy = policy
        self._report = report
        self._line = 1

    def blocks(self) -> Iterator[RawRows]:
        """Yield the rows in the order of the file. Raises LogError."""
        try:
            with _opened(self._path) as stream:
                yield from self._blocks(stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = f"broken gzip data after line {self._line - 1}: {error}"
            raise LogError(self._path, self._line, problem) from error
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise LogError(self._path, 0, problem) from error

    def _blocks(self, stream: BinaryIO) -> Iterator[RawRows]:
        rest = b""
        while data := stream.read(_BLOCK_BYTES):
            if b"\r" in data:
                while data.endswith(b"\r") and (more := stream.read(1)):
                    data += more
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            whole, newline, rest = (rest + data).rpartition(b"\n")
            if len(rest) > _LINE_BYTES:
                line = self._line + whole.count(b"\n") + len(newline)
                raise LogError(
                    self._path, line, f"a line of more than {_LINE_BYTES} bytes; not a workload log"
                )
            if newline:
                yield self._block(whole + newline)
        if rest:
            yield self._block(rest + b"\n")

    def _block(self, block: bytes) -> RawRows:
        first = self._line
        if b"\0" in block:
            raise LogError(self._path, 0, "is no text, so it is not a workload log")
        if first == 1:
            block = block.removeprefix(_BYTE_ORDER_MARK)
        self._line += block.count(b"\n")
        if b";" in block:
            block = self._without_comments(block)
        rows = _parsed_at_once(block, first)
        if rows is None:
            rows = self._parsed_by_line(block, first)
        else:
            self._report.data_lines += len(rows.lines)
        return rows

    def _without_comments(self, block: bytes) -> bytes:
        """Return the block with blank lines for comments, so that line numbers stay the same."""
        lines = block.split(b"\n")
        for index, line in enumerate(lines):
            if line.lstrip().startswith(b";"):
                self.comments.append(decoded(line.strip()))
                lines[index] = b""
        return b"\n".join(lines)

    def _parsed_by_line(self, block: bytes, first: int) -> RawRows:
        values: list[list[float]] = []
        lines: list[int] = []
        arrays: list[int] = []
        for number, text in enumerate(block.split(b"\n"), start=first):
            tokens = text.split()
            if not tokens:
                continue
            self._report.data_lines += 1
            array_id = MISSING
            element = _ELEMENT.match(tokens[0])
            if element:
                array_id, tokens[0] = int(element[1]), element[1]
            row = self._row(tokens, number)
            if row is not None:
                self._report.array_elements += array_id != MISSING
                values.append(row)
                lines.append(number)
                arrays.append(array_id)
        return RawRows(
            values=np.array(values, dtype=np.float64).reshape(-1, FIELDS),
            lines=np.array(lines, dtype=np.int64),
            array_ids=np.array(arrays, dtype=np.int64),
        )

    def _row(self, tokens: list[bytes], line: int) -> list[float] | None:
        """Return the eighteen numbers of a row, None if it is dropped."""
        if len(tokens) != FIELDS:
            lost = len(tokens) < LEAST_FIELDS
            shown = f"{len(tokens)} fields"
            if not self._goes_on(FaultKind.COLUMN_COUNT, line, 0, shown, lost):
                return None
            tokens = tokens[:FIELDS] + [b"-1"] * (FIELDS - len(tokens))
        row = []
        for index, token in enumerate(tokens):
            value = float(token) if _NUMBER.match(token) else math.nan
            if not abs(value) <= LARGEST:
                lost = index < 2
                text = decoded(token)
                if not self._goes_on(FaultKind.BAD_NUMBER, line, index + 1, text, lost):
                    return None
                value = float(MISSING)
            row.append(value)
        return row

    def _goes_on(
        self, rule: FaultKind, line: int, field_number: int, value: str, lost: bool
    ) -> bool:
        """Record a fault and return whether the row is still used; raises under `fail`.

        `keep` cannot keep text that is not a number, so it repairs here as `repair` does.
        """
        treatment = self._policy.treatment(rule)
        if treatment is Treatment.FAIL:
            where = f"field {field_number}: " if field_number else ""
            shown = printable(value)[:_SHOWN]
            raise LogError(self._path, line, f"{rule.value}: {where}{shown!r}")
        dropped = lost or treatment is Treatment.SKIP
        outcome = RowOutcome.DROPPED if dropped else RowOutcome.REPAIRED
        self._report.add(rule, outcome, line, field_number, value)
        return not dropped


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as probe:
        magic = probe.read(2)
    return cast(BinaryIO, gzip.open(path, "rb")) if magic == _GZIP_MAGIC else path.open("rb")


def _parsed_at_once(block: bytes, first: int) -> RawRows | None:
    """Return the rows of a block, None if it has a fault."""
    text = np.frombuffer(block, dtype=np.uint8)
    space = _SPACE[text]
    starts = ~space
    starts[1:] &= space[:-1]
    ends = np.flatnonzero(text == 10)
    tokens = np.diff(np.cumsum(starts, dtype=np.int64)[ends], prepend=0)
    if not np.all((tokens == 0) | (tokens == FIELDS)):
        return None
    lines = np.flatnonzero(tokens) + first
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.fromstring(block, dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    if len(lines) == 0:
        values = values[:0]
    if values.size != len(lines) * FIELDS or not np.all(np.abs(values) <= LARGEST):
        return None
    return RawRows(
        values=values.reshape(-1, FIELDS),
        lines=lines,
        array_ids=np.full(len(lines), MISSING, dtype=np.int64),
    )
