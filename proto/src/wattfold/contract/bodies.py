"""Lenient readers of message bodies, which return a marker instead of raising an error.

gRPC answers UNKNOWN to a body that cannot be parsed, and writes a traceback for each. So the reader
of a method returns `UNREADABLE` for such a body, and the service answers INVALID_ARGUMENT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Unreadable:
    """Type of `UNREADABLE`, a body that cannot be parsed."""


UNREADABLE = Unreadable()


def lenient(
    read: Callable[[bytes], Any] | None, error: type[Exception]
) -> Callable[[bytes], Any] | None:
    """Return a reader that returns `UNREADABLE` if ``read`` raises this error; None stays None."""
    if read is None:
        return None

    def reader(body: bytes) -> Any:
        try:
            return read(body)
        except error:
            return UNREADABLE

    return reader


def refusal_text(action: str) -> str:
    """Return the message for the caller."""
    return f"the body of the call is not a valid {action} request; is the client of this version?"
