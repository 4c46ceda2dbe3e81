"""Width of text on a terminal, and its layout in a column."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

ELLIPSIS = "…"
_NO_WIDTH = ("Mn", "Mc", "Me", "Cf")


def cell_width(text: str) -> int:
    """Return the number of columns of a printable text on a terminal."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def narrowed(widths: Sequence[int], flexible: Sequence[bool], room: int) -> list[int]:
    """Return column widths that fit a room, by narrowing the widest flexible columns first.

    The other columns follow only if the flexible ones have one character each.
    """
    found = list(widths)
    for may_shrink in (flexible, [True] * len(found)):
        shrinking = [at for at, shrinks in enumerate(may_shrink) if shrinks]
        while sum(found) > room:
            widest = max((found[at] for at in shrinking), default=0)
            if widest <= 1:
                break
            # The last of the widest columns shrinks by one character at a time: reasons before
            # names.
            found[max(at for at in shrinking if found[at] == widest)] -= 1
    return found


def fitted(text: str, width: int, *, wraps: bool) -> list[str]:
    """Return a text as lines of at most this width: cut with an ellipsis, or wrapped at blanks."""
    if cell_width(text) <= width:
        return [text]
    if not wraps:
        return [_beginning(text, width - 1) + ELLIPSIS]
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".lstrip()
        if cell_width(joined) <= width:
            lines[-1] = joined
            continue
        lines.append(word)
        while cell_width(lines[-1]) > width:
            start = _beginning(lines[-1], width) or lines[-1][0]
            lines[-1:] = [start, lines[-1][len(start) :]]
    return [line for line in lines if line]


def _beginning(text: str, width: int) -> str:
    used = 0
    for at, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:at]
    return text


def _character_width(character: str) -> int:
    if character.isascii():
        return 1
    # Vowels and finals of Hangul join the consonant before them.
    if unicodedata.category(character) in _NO_WIDTH or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
