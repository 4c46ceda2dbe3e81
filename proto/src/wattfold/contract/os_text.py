r"""Arguments, environment variables and paths as text that protobuf, JSON and SQLite can hold.

To the kernel these are bytes without NUL, in any encoding. In messages they are UTF-8 text, in
which each byte that is no part of valid UTF-8 is written as NUL and two hexadecimal digits. NUL
occurs in no argument, variable or path, so the form is unambiguous. The service passes it on as it
is; only commands and agents convert it.
"""

from __future__ import annotations

import re

_STRAY = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile("\0([89a-f][0-9a-f])")


def os_text(raw: bytes) -> str:
    """Return the form for messages of an argument, variable or path."""
    text = raw.decode("utf-8", "surrogateescape")
    return text if text.isascii() else _STRAY.sub(_escaped, text)


def is_os_text(text: str) -> bool:
    """Whether a text has the form for messages: no NUL except for bytes outside of UTF-8."""
    return "\0" not in text or "\0" not in _ESCAPE.sub("", text)


def utf8_text(text: str) -> str:
    """Return the text with surrogates in place of bytes outside of UTF-8, for a UTF-8 locale.

    Raises ValueError for another NUL.
    """
    if not is_os_text(text):
        raise ValueError(f"{text[:40]!r} contains a NUL byte")
    return _ESCAPE.sub(_surrogate, text) if "\0" in text else text


def os_bytes(text: str) -> bytes:
    """Return the bytes for the kernel. Raises ValueError as `utf8_text`."""
    return utf8_text(text).encode("utf-8", "surrogateescape")


def shown_text(text: str) -> str:
    r"""Return the text for people and JSON: bytes outside of UTF-8 as in ``\xff``."""
    return _ESCAPE.sub(r"\\x\1", text) if "\0" in text else text


def _surrogate(found: re.Match[str]) -> str:
    return chr(0xDC00 + int(found[1], 16))


def _escaped(found: re.Match[str]) -> str:
    return f"\0{ord(found[0]) - 0xDC00:02x}"
