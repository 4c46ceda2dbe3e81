"""The stored schemas of JSON documents keep their promise, and real output matches them."""

from __future__ import annotations

import copy
import importlib.util
import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from unit.cli.command import Command
from unit.cli.conftest import address, fake, short_folder, wattfold
from unit.cli.fake_coordinator import FakeCoordinator, W

from wattfold.coordinator.cli.shared.texts.json_documents import SCHEMAS
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["address", "fake", "short_folder", "wattfold"]
ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "schemas"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "scripts" / "documents" / "json_schemas.py"
    found = importlib.util.spec_from_file_location("json_schemas", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def stored(name: str) -> dict[str, Any]:
    text = (FOLDER / f"{name}-{SCHEMAS[name]}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def test_every_field_of_the_stored_schemas_is_in_the_messages(generator: ModuleType) -> None:
    written = dict(generator.current())
    assert {path.name for path in written} <= {path.name for path in FOLDER.glob("*.json")}
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, "run scripts/gen_docs"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda job: job["properties"].pop("cap_uw"), "cap_uw would disappear"),
        (
            lambda job: job["properties"].update(cap_w=job["properties"].pop("cap_uw")),
            "cap_uw would disappear",
        ),
        (
            lambda job: job["properties"].update(cap_uw={"type": "string"}),
            "cap_uw: type would change from integer to string",
        ),
        (lambda job: job["required"].remove("cap_uw"), "cap_uw would become optional"),
    ],
)
def test_a_broken_promise_is_refused(generator: ModuleType, change: Any, told: str) -> None:
    before = stored("queue")
    after = copy.deepcopy(before)
    change(after["$defs"]["Job"])
    with pytest.raises(generator.BrokenPromiseError, match=told):
        generator.check(before, after, "queue-1.json")


def test_new_fields_and_new_states_keep_the_promise(generator: ModuleType) -> None:
    before = stored("queue")
    after = copy.deepcopy(before)
    job = after["$defs"]["Job"]
    job["properties"]["new_s"] = {"type": "number"}
    job["required"].append("new_s")
    job["properties"]["state"]["examples"].append("JOB_STATE_NEW")
    generator.check(before, after, "queue-1.json")


def test_the_page_lists_every_schema() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    for name, number in SCHEMAS.items():
        assert f"(schemas/{name}-{number}.json)" in page


COMMANDS = {
    "queue": ["queue", "--all"],
    "show": ["show", "a"],
    "nodes": ["nodes"],
    "power": ["power"],
    "budget-list": ["budget", "list"],
    "reservations": ["reservations"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_documents_match_their_schemas(wattfold: Command, fake: FakeCoordinator, name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    fake.add(
        pb.Job(
            job_id="a",
            state=pb.JOB_STATE_RUNNING,
            shares=[pb.NodeShare(node_id="n1", cpus="0-1")],
            attempts=[pb.JobAttempt(number=1)],
            spec=pb.JobSpec(env={"A": "b"}, argv=["run"]),
            remaining_s=float("inf"),
        )
    )
    at_s = time.time() + 3600
    fake.power.announced.add(number=1, budget_uw=100 * W, at_s=at_s)
    fake.reservations["r"] = pb.Reservation(name="r", node_ids=["n1"], end_at_s=at_s)
    document = wattfold.json(*COMMANDS[name])
    assert next(iter(document)) == "schema"
    jsonschema.validate(document, stored(name))
    lost = {**document}
    lost.pop(list(document)[-1])
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        jsonschema.validate(lost, stored(name))
