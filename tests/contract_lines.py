"""The messages and calls of the contract as text, a line for each message, enum and service."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

_TYPES = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def lines_of(file: FileDescriptor) -> dict[str, set[str]]:
    """Return the parts of each message, enum and service of a file, by its name."""
    found: dict[str, set[str]] = {}
    messages = list(file.message_types_by_name.values())
    enums = list(file.enum_types_by_name.values())
    while messages:
        message = messages.pop()
        messages.extend(message.nested_types)
        enums.extend(message.enum_types)
        found[message.full_name] = set(map(_field, message.fields))
    for enum in enums:
        found[enum.full_name] = {f"{value.name}={value.number}" for value in enum.values}
    for service in file.services_by_name.values():
        found[service.full_name] = {
            f"{call.name}({_name(call.input_type)}){_name(call.output_type)}"
            for call in service.methods
        }
    return found


def _field(field: FieldDescriptor) -> str:
    kind = field.message_type or field.enum_type
    many = "*" if field.is_repeated else ""
    return f"{field.name}={field.number}:{_TYPES[field.type] if kind is None else kind.name}{many}"


def _name(message: Descriptor) -> str:
    return str(message.name)
