"""Messages of the coordinator as plain data, which `json_output` writes.

Every field is present under its name in the contract, even with its default value. A missing part
is null. 64-bit numbers are numbers and not strings, which is where this differs from
protobuf's own JSON form. Enumerations are their names in the contract. Bytes outside of UTF-8 in
arguments, variables and paths are text as in ``\\xff``.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from wattfold.contract.os_text import shown_text

_MESSAGE = FieldDescriptor.TYPE_MESSAGE


def as_dict(message: Message) -> dict[str, Any]:
    """Return a message as plain data."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
        return {shown_text(key): _shown(value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_single(field, item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.type == _MESSAGE:
        return as_dict(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return _shown(value)


def _shown(value: Any) -> Any:
    return shown_text(value) if isinstance(value, str) else value
