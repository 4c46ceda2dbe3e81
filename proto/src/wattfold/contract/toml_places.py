"""Line number of a key in the text of a TOML file, for messages; the parser does not report it.

Keys of several tables may have the same name, and each entry of a listed table ([[node]]) has them.
The number is 0 if the key cannot be found this way, such as a key of an inline table. A line inside
a multi-line text is not a key.
"""

from __future__ import annotations

import re
from collections import Counter

_HEADER = re.compile(r"\s*\[(\[?)\s*([\w.\"'-]+)\s*\]")
_NAME = re.compile(r"\s*([\w.\"'-]+)\s*=")
_LONG_TEXT = re.compile(r"\"\"\"|'''")


def line_of(text: str, key: str, table: str = "", index: int = 0) -> int:
    """Return the line of a key of a table, or of its header if ``key`` is empty; 0 = not found.

    ``table``: empty for the keys at the top. ``index``: position among the tables of this name.
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
