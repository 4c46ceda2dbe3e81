"""Header comments of a workload log: kept as they were, read where they state a number.

The Standard Workload Format opens with lines like ``; MaxProcs: 128``. Every line is kept, also the
ones that follow no pattern, so that a log that is converted keeps its provenance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PAIR = re.compile(r";\s*([A-Za-z][A-Za-z0-9 _-]*?)\s*:\s*(.*?)\s*\Z")
_NUMBER = re.compile(r"[+-]?\d{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The comment lines of a log, each beginning with ``;``."""

    lines: tuple[str, ...] = ()

    def text(self, key: str) -> str | None:
        """The first value stated for a key, whatever its case; None where there is none."""
        wanted = key.lower()
        for line in self.lines:
            pair = _PAIR.match(line)
            if pair and pair[1].lower() == wanted:
                return pair[2]
        return None

    def number(self, key: str) -> int | None:
        """The whole number a value begins with; None where there is none."""
        match = _NUMBER.match(self.text(key) or "")
        return int(match[0]) if match else None

    def pairs(self) -> list[tuple[str, str]]:
        """All stated keys and values in their order, repeated keys included."""
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
        """Seconds since 1970 of time zero of the log."""
        return self.number("UnixStartTime")

    def with_value(self, key: str, value: str | int) -> Header:
        """The header with one value replaced where it stands, or added at the end."""
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
        """The header with one more ``Note``."""
        return Header(lines=(*self.lines, f"; Note: {' '.join(note.split())}"))


def decoded(line: bytes) -> str:
    """A comment line as text: UTF-8, else Latin-1, in which older logs are written."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def printable(text: str) -> str:
    """Text of a log without what a terminal would act on."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
