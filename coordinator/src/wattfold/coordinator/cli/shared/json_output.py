"""Messages of the coordinator as JSON for programs.

Every field is there under its name in the contract, also when it has its default, and a missing
part is null. 64-bit numbers are numbers and not strings, which is where this differs from
protobuf's own JSON form. Enumerations are their names in the contract.
"""

from __future__ import annotations

import json
import math
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_MESSAGE = FieldDescriptor.TYPE_MESSAGE


def as_dict(message: Message) -> dict[str, Any]:
    """A message as plain data."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def dumps(document: object) -> str:
    """One JSON document, indented. A value JSON has no word for (NaN, infinity) is null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def dumps_line(document: object) -> str:
    """One JSON document on one line, for a stream of them."""
    return json.dumps(_finite(document), ensure_ascii=False, allow_nan=False)


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
        return {key: value[key] for key in sorted(value)}
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
    return value


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
