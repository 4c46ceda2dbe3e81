"""Messages that no correct program sends, made from the descriptors of the contract.

A message is a valid one with some of its fields changed: to the ends of their ranges, to values of
a newer version, to texts of any length, to thousands of repetitions. So it passes the first checks
and reaches those behind them. A body may also be damaged as bytes, or have fields of a newer
version.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

Hints = Mapping[str, Sequence[Any]]
"""Values by the name of a field that lead further than random ones."""

CHANGES_MAX = 6
MANY = 1100
"""Above the limits of most lists."""
_UNSIGNED = (0, 1, 2, 3, 7, 100, 65_535, 65_536, 10**6, 10**9)
_INTEGERS: dict[int, tuple[int, ...]] = {
    FieldDescriptor.CPPTYPE_UINT32: (*_UNSIGNED, 2**31, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (
        *(*_UNSIGNED, 10**12, 10**15),
        *(2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1),
    ),
    FieldDescriptor.CPPTYPE_INT32: (0, 1, -1, 137, 2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, -1, 2**63 - 1, -(2**63)),
}
_KINDS = {FieldDescriptor.CPPTYPE_STRING: str, FieldDescriptor.CPPTYPE_DOUBLE: float}
_FLOATS = (
    *(0.0, 1.0, -1.0, 1e-300, 4e9, 1e17, 1e300, -1e300),
    *(float("inf"), float("-inf"), float("nan")),
)
_TEXTS = (
    *("", "x", "0", "-", " ", "\0", "a\0b", "a\nb", "\x1b[31m", "ä", "\U0001f4a5", "\u202e"),
    *("\ufffd", "../x", "%j", "0-3", "3-0", "0-", "0-65535", "99999", "²", "9" * 4400),
    *("x" * 64, "x" * 5000, "x" * 70_000, "\0ff", "{}", "nan", "1e999", "=", "unix:/x", "tcp:1"),
)
_BYTES = (b"", b"\0", b"\1", b"\1\0", b"\2", b"\xff" * 9, b"\1" * 300, b"\1" * 70_000)
_NEW_ENUM_VALUES = (99, 2**31 - 1, -1, -(2**31))
_NEWER = (b"\xf8\xff\x03\x01", b"\xfa\xff\x03\x02hi", b"\xf9\xff\x03" + b"\0" * 8)
"""Fields of number 8191, of three wire types."""


@st.composite
def messages(draw: st.DrawFn, base: Message, hints: Hints) -> Any:
    """A copy of ``base`` with some of its fields changed."""
    made = type(base)()
    made.CopyFrom(base)
    for _ in range(draw(st.integers(0, CHANGES_MAX))):
        _change(draw, made, hints)
    return made


@st.composite
def bodies(draw: st.DrawFn, base: Any, hints: Hints, header: bool = False) -> bytes:
    """The bytes of such a message, seldom damaged or with fields of a newer version.

    With a ``header``, that of ``base`` is mostly kept: without it nothing else is looked at.
    """
    made = draw(messages(base, hints))
    if header and draw(st.integers(0, 9)):
        made.header.CopyFrom(base.header)
    body = made.SerializeToString()
    kind = draw(st.integers(0, 15))
    if kind == 0:
        body += draw(st.sampled_from(_NEWER))
    elif kind == 1 and body:
        at = draw(st.integers(0, min(len(body), 400) - 1))
        # 0xed 0xa0 begins a surrogate, which is not UTF-8.
        body = body[:at] + draw(st.sampled_from([b"", b"\xff", b"\xed\xa0\x80"])) + body[at + 1 :]
    elif kind == 2:
        body = body[: draw(st.integers(0, min(len(body), 400)))]
    return body


def _change(draw: st.DrawFn, message: Any, hints: Hints) -> None:
    """Changes one field of a message, or of a message in it."""
    fields = _weighted(message.DESCRIPTOR)
    if not fields:
        return
    field = draw(st.sampled_from(fields))
    if field.is_repeated:
        _change_repeated(draw, message, field, hints)
    elif field.message_type is not None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        if draw(st.integers(0, 7)):
            _change(draw, inner, hints)
    elif draw(st.integers(0, 15)):
        setattr(message, field.name, draw(_value(field, hints)))
    else:
        message.ClearField(field.name)


@functools.cache
def _weighted(kind: Descriptor) -> tuple[FieldDescriptor, ...]:
    """The fields of a message, those that are messages as often as they have fields."""
    return tuple(
        field
        for field in kind.fields
        for _ in range(len(field.message_type.fields) if field.message_type else 1)
    )


def _change_repeated(draw: st.DrawFn, message: Any, field: FieldDescriptor, hints: Hints) -> None:
    there = getattr(message, field.name)
    kind = draw(st.integers(0, 15))
    if _is_map(field.message_type):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        there[draw(_value(key, hints))] = draw(_value(value, hints))
    elif kind == 0:
        message.ClearField(field.name)
    elif kind == 1 and there:
        there.extend([there[0]] * MANY)
    elif field.message_type is None:
        there.append(draw(_value(field, hints)))
    else:
        inner = draw(st.sampled_from(list(there))) if there and kind < 12 else there.add()
        for _ in range(draw(st.integers(1, 3))):
            _change(draw, inner, hints)


def _is_map(kind: Descriptor | None) -> bool:
    return kind is not None and kind.GetOptions().map_entry


def _value(field: FieldDescriptor, hints: Hints) -> st.SearchStrategy[Any]:
    # Fields of several messages have the same name, and not all of them the same type.
    kind = _KINDS.get(field.cpp_type, int)
    known = [hint for hint in hints.get(field.name, ()) if type(hint) is kind]
    return st.sampled_from(known) | _extreme(field) if known else _extreme(field)


def _extreme(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind in _INTEGERS:
        return st.sampled_from(_INTEGERS[kind])
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        next_one = max(field.enum_type.values_by_number) + 1
        return st.sampled_from([*field.enum_type.values_by_number, next_one, *_NEW_ENUM_VALUES])
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return st.sampled_from(_FLOATS)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    return st.sampled_from(_BYTES if field.type == FieldDescriptor.TYPE_BYTES else _TEXTS)
