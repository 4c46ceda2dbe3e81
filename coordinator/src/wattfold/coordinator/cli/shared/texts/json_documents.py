"""Schema numbers of the JSON documents of lists, which programs may rely on.

Within a number, fields are added, and never renamed or removed. `docs/schemas` has a JSON Schema of
each document; `scripts/gen_docs` refuses to write a schema that lacks a field of the stored schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMAS = {
    "accounts": 1,
    "advise": 1,
    "budget-list": 1,
    "history": 1,
    "nodes": 1,
    "power": 1,
    "queue": 1,
    "queues": 1,
    "report": 1,
    "reservations": 1,
    "show": 1,
}
"""Current numbers by the names of the documents, which are those of the commands."""


def numbered(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the number of its schema as the first field."""
    return {"schema": SCHEMAS[name], **document}
