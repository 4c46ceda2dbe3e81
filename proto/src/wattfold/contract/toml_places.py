"""Where a key stands in the text of a TOML file, for messages: the parser does not tell.

Keys of several tables may have the same name, and of a table that is listed ([[node]]) each entry
has them. Takes text in and gives a line number; what cannot be found this way (a key of an inline
table) is answered with 0. A line within a text of several lines is taken for no key.
"""

from __future__ import annotations

import re
from collections import Counter

_HEADER = re.compile(r"\s*\[(\[?)\s*([\w.\"'-]+)\s*\]")
_NAME = re.compile(r"\s*([\w.\"'-]+)\s*=")
_LONG_TEXT = re.compile(r"\"\"\"|'''")


def line_of(text: str, key: str, table: str = "", index: int = 0) -> int:
    """The line of a key of a table, of its header if ``key`` is empty; 0 = not there.

    ``table``: empty for the keys at the top. ``index``: which of the tables of this name.
    """
    here, entry, within = "", 0, False
    seen: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        began_within, within = within, within ^ (len(_LONG_TEXT.findall(line)) % 2 == 1)
        if began_within:
            continue
        if header := _HEADER.match(line):
            here = _plain(header[2])
            entry = seen[here]
            seen[here] += 1
            if not key and (here, entry) == (table, index):
                return number
        elif (name := _NAME.match(line)) and entry == (index if table else 0):
            full = f"{here}.{_plain(name[1])}" if here else _plain(name[1])
            if key and full == (f"{table}.{key}" if table else key):
                return number
    return 0


def _plain(name: str) -> str:
    return re.sub(r"[\"']", "", name)
