"""Header comments of a workload log: kept unchanged, and parsed if they state a number.

The Standard Workload Format opens with lines like ``; MaxProcs: 128``. Every line is kept, even
without a known pattern, so that a converted log keeps its provenance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PAIR = re.compile(r";\s*([A-Za-z][A-Za-z0-9 _-]*?)\s*:\s*(.*?)\s*\Z")
_NUMBER = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Comment lines of a log, each beginning with ``;``."""

    lines: tuple[str, ...] = ()

    def text(self, key: str) -> str | None:
        """Return the first value of a key, ignoring case; None if there is none."""
        wanted = key.lower()
        for line in self.lines:
            pair = _PAIR.match(line)
            if pair and pair[1].lower() == wanted:
                return pair[2]
        return None

    def number(self, key: str) -> int | None:
        """Return the integer at the start of a value; None if there is none."""
        match = _NUMBER.match(self.text(key) or "")
        return int(match[0]) if match else None

    def pairs(self) -> list[tuple[str, str]]:
        """Return all keys and values in their order, including repeated keys."""
        matches = (_PAIR.match(line) for line in self.lines)
        return [(match[1], match[2]) for match in matches if match]

    @property
    def max_nodes(self) -> int | None:
        """Nodes of the machine."""
        return self.number("MaxNodes")

    @property
    def max_procs(self) -> int | None:
        """Processors of the machine."""
        return self.number("MaxProcs")

    @property
    def unix_start_time_s(self) -> int | None:
        """Time zero of the log, in seconds since 1970."""
        return self.number("UnixStartTime")

    def with_value(self, key: str, value: str | int) -> Header:
        """Return the header with one value replaced in place, or added at the end."""
        wanted, entry, lines, found = key.lower(), f"; {key}: {value}", [], False
        for line in self.lines:
            pair = _PAIR.match(line)
            if pair and pair[1].lower() == wanted and not found:
                lines.append(entry)
                found = True
            else:
                lines.append(line)
        return Header(lines=tuple(lines) if found else (*lines, entry))

    def with_note(self, note: str) -> Header:
        """Return the header with one more ``Note``."""
        return Header(lines=(*self.lines, f"; Note: {' '.join(note.split())}"))


def decoded(line: bytes) -> str:
    """Decode a comment line: UTF-8, or else Latin-1, which older logs use."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def printable(text: str) -> str:
    """Return text of a log without characters that would control a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
