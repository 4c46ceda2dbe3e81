"""Texts of this process, in the encoding of its locale, and their form in messages."""

from __future__ import annotations

import os

from wattfold.contract.os_text import os_bytes, os_text, shown_text


def message_text(native: str | os.PathLike[str]) -> str:
    """Return the form for messages of an argument, variable or path."""
    return os_text(os.fsencode(native))


def printed_text(native: str) -> str:
    r"""Return an argument or path for people and JSON: bytes outside of UTF-8 as in ``\xff``."""
    return shown_text(message_text(native))


def native_text(text: str) -> str:
    """Return a text of a message as Python has it in this locale. Raises ValueError."""
    return os.fsdecode(os_bytes(text))
