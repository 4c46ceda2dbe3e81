"""JSON Schemas of the documents of lists, derived from the messages of the contract.

A document has the fields of its message, as `message_json.as_dict` writes them. The files in
`docs/schemas` keep the promise to programs: within a schema number, a field is never removed or
renamed, and its type stays. `current` raises BrokenPromiseError instead of dropping a field.

Schemas describe what a document contains at least. Objects may have further fields, because later
versions add some, and states may have further words.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "schemas"
MESSAGES = {
    "budget-list": "Power",
    "history": "ListHistoryResponse",
    "nodes": "ListNodesResponse",
    "power": "Power",
    "queue": "ListJobsResponse",
    "queues": "ListQueuesResponse",
    "accounts": "ListAccountsResponse",
    "report": "GetReportResponse",
    "reservations": "ListReservationsResponse",
    "show": "Job",
}
"""Messages of the documents."""
ONLY = {"budget-list": ("announced",)}
"""Documents with a part of their message."""
_NUMBER = {"type": ["number", "null"]}
"""Numbers that JSON cannot express, such as infinity, are null."""
OPTIONAL = {"report": {"": {"price_per_kwh": _NUMBER}, "ReportRow": {"eur": _NUMBER}}}
"""Fields of a document, or of one of its messages, that are present only with some options."""
_RATIO: dict[str, Any] = {
    "relative": _NUMBER,
    "relative_95": {"type": "array", "items": _NUMBER},
}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64")


def _whole(**fields: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields, all of them required."""
    return {"type": "object", "properties": fields, "required": list(fields)}


COMPUTED = {
    "advise": _whole(
        jobs={"type": "integer"},
        segments={"type": "array", "items": _whole(start_s=_NUMBER, jobs={"type": "integer"})},
        segment_s=_NUMBER,
        goal=_TEXT,
        current=_whole(policy=_TEXT, budget_w=_NUMBER),
        options={
            "type": "array",
            "items": _whole(
                policy=_TEXT,
                budget_w=_NUMBER,
                completion_s_mean=_NUMBER,
                wait_s_mean=_NUMBER,
                bounded_slowdown_mean=_NUMBER,
                energy_j=_NUMBER,
                **_RATIO,
                verdict=_TEXT,
            ),
        },
        refused={
            "type": "array",
            "items": _whole(policy=_TEXT, budget_w=_NUMBER, reason=_TEXT),
        },
        advice=_whole(
            policy=_TEXT,
            configured_as=_TEXT,
            changes={"type": "boolean"},
            best_other=_TEXT,
            relative=_NUMBER,
            interval={"type": "array", "items": _NUMBER},
            confidence=_NUMBER,
            sentences=_TEXTS,
        ),
        assumptions=_TEXTS,
        figure={"type": ["string", "null"]},
    ),
}
"""Documents that a command computes, which no message describes."""


class BrokenPromiseError(Exception):
    """A field of a stored schema would disappear or change its type."""


def current(folder: Path = FOLDER) -> Iterator[tuple[Path, str]]:
    """Yield the file and the text of each schema. Raises BrokenPromiseError."""
    for source in ("coordinator/src", "proto/src", "proto/gen/python"):
        if str(ROOT / source) not in sys.path:
            sys.path.insert(0, str(ROOT / source))
    numbers = import_module("wattfold.coordinator.cli.shared.texts.json_documents").SCHEMAS
    messages = import_module("wattfold.v1.coordinator_pb2").DESCRIPTOR.message_types_by_name
    for name, number in numbers.items():
        path = folder / f"{name}-{number}.json"
        if name in COMPUTED:
            found = _framed(name, number, COMPUTED[name], {})
        else:
            found = schema_of(name, number, messages[MESSAGES[name]])
        if path.exists():
            check(json.loads(path.read_text(encoding="utf-8")), found, path.name)
        yield path, json.dumps(found, indent=2) + "\n"


def renew(*, write: bool) -> list[Path]:
    """Return the outdated files, and with ``write`` renew them. Exits at a broken promise."""
    stale = []
    try:
        for path, text in current():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path)
                if write:
                    path.write_text(text, encoding="utf-8")
    except BrokenPromiseError as error:
        raise SystemExit(str(error)) from error
    return stale


def schema_of(name: str, number: int, message: Any) -> dict[str, Any]:
    """Return the schema of a document."""
    optional: Mapping[str, Any] = OPTIONAL.get(name, {})
    parts: dict[str, Any] = {}
    document = _object(message, parts, optional, ONLY.get(name, ()))
    document["properties"].update(optional.get("", {}))
    return _framed(name, number, document, parts)


def _framed(
    name: str, number: int, document: Mapping[str, Any], parts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"wattfold {name.replace('-', ' ')} --json",
        **document,
        "properties": {"schema": {"const": number}, **document["properties"]},
        "required": ["schema", *document["required"]],
        "$defs": {name: parts[name] for name in sorted(parts)},
    }


def _object(
    message: Any, parts: dict[str, Any], optional: Mapping[str, Any], only: tuple[str, ...] = ()
) -> dict[str, Any]:
    fields = [field for field in message.fields if not only or field.name in only]
    return {
        "type": "object",
        "properties": {field.name: _field(field, parts, optional) for field in fields},
        "required": [field.name for field in fields],
    }


def _field(field: Any, parts: dict[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        value = message.fields_by_name["value"]
        return {"type": "object", "additionalProperties": _single(value, parts, optional)}
    single = _single(field, parts, optional)
    if field.is_repeated:
        return {"type": "array", "items": single}
    return _nullable(single) if field.has_presence else single


def _nullable(single: dict[str, Any]) -> dict[str, Any]:
    if "type" not in single:
        return {"anyOf": [single, {"type": "null"}]}
    types = single["type"] if isinstance(single["type"], list) else [single["type"]]
    return {**single, "type": list(dict.fromkeys([*types, "null"]))}


def _single(field: Any, parts: dict[str, Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    if field.type == field.TYPE_MESSAGE:
        name = field.message_type.name
        if name not in parts:
            parts[name] = {}  # Current before its fields, because a message may contain itself.
            parts[name] = _object(field.message_type, parts, optional)
            parts[name]["properties"].update(optional.get(name, {}))
        return {"$ref": f"#/$defs/{name}"}
    if field.type == field.TYPE_ENUM:
        # An older command shows a word that it does not know as its number.
        words = [value.name for value in field.enum_type.values]
        return {"type": ["string", "integer"], "examples": words}
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return dict(_NUMBER)
    if field.type == field.TYPE_BOOL:
        return {"type": "boolean"}
    if field.type in {getattr(field, f"TYPE_{name.upper()}") for name in _INTEGERS}:
        return {"type": "integer"}
    return {"type": "string"}


def check(stored: Any, found: Any, where: str) -> None:
    """Compare a stored schema with a new one. Raises BrokenPromiseError at the first loss."""
    if isinstance(stored, dict) and isinstance(found, dict):
        for name, part in stored.items():
            if name == "examples":
                continue
            if name not in found:
                raise BrokenPromiseError(_refused(f"{where}: {name} would disappear"))
            check(part, found[name], f"{where}: {name}")
    elif where.endswith(": required"):
        if lost := sorted(set(stored) - set(found)):
            text = f"{where.removesuffix(': required')}: {lost[0]} would become optional"
            raise BrokenPromiseError(_refused(text))
    elif stored != found:
        raise BrokenPromiseError(_refused(f"{where} would change from {stored} to {found}"))


def _refused(text: str) -> str:
    return (
        f"{text}; keep the field, or raise the number of the document in "
        "cli/shared/texts/json_documents.py, which leaves the earlier schema as it is"
    )
