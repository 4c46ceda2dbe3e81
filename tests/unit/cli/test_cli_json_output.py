"""JSON output for programs."""

from __future__ import annotations

import json

from wattfold.coordinator.cli.shared.texts.json_output import dumps
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.v1 import coordinator_pb2 as pb


def test_every_field_is_there_with_its_default() -> None:
    document = as_dict(pb.Job())
    assert set(document) == {field.name for field in pb.Job.DESCRIPTOR.fields}
    assert document["state"] == "JOB_STATE_UNSPECIFIED"
    assert document["shares"] == []
    assert document["spec"] is None
    assert document["energy_uj"] == 0


def test_large_numbers_are_numbers_and_maps_are_objects() -> None:
    job = pb.Job(
        energy_uj=2**63,
        spec=pb.JobSpec(env={"B": "2", "A": "1"}, argv=["x"], kind=pb.JOB_KIND_RIGID),
        shares=[pb.NodeShare(node_id="n1", cpus="0-1")],
    )
    read = json.loads(dumps(as_dict(job)))
    assert read["energy_uj"] == 2**63
    assert read["spec"]["env"] == {"A": "1", "B": "2"}
    assert read["spec"]["kind"] == "JOB_KIND_RIGID"
    share = {"node_id": "n1", "cpus": "0-1", "memory_bytes": 0, "gpus": [], "resident": False}
    assert read["shares"] == [share]


def test_numbers_json_has_no_word_for_are_null() -> None:
    assert json.loads(dumps({"a": [float("nan")], "b": float("inf"), "c": 1.5})) == {
        "a": [None],
        "b": None,
        "c": 1.5,
    }
