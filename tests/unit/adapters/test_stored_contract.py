"""Messages and records of an earlier version, stored as data, fit this version.

`tests/data/contract-0.1.0.txt` has the messages of commit b7e7d2af, and `agent-job-0.1.0.json` the
record of a running job that its agent wrote. `scripts/trial_upgrade` mixes real services.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contract_lines import lines_of

from wattfold.nodeagent.service.jobs.records import JobState, from_record, to_record
from wattfold.v1 import common_pb2, coordinator_pb2, node_agent_pb2

DATA = Path(__file__).parents[2] / "data"
RECORD = json.loads((DATA / "agent-job-0.1.0.json").read_text(encoding="utf-8"))


def lost(now: dict[str, set[str]]) -> list[str]:
    """Parts of the stored contract that are not in another one."""
    found = []
    for line in (DATA / "contract-0.1.0.txt").read_text(encoding="utf-8").splitlines():
        name, *parts = line.split(" ")
        found += [f"{name} {part}" for part in parts if part not in now.get(name, ())]
    return found


def contract() -> dict[str, set[str]]:
    files = (common_pb2, coordinator_pb2, node_agent_pb2)
    return {name: parts for one in files for name, parts in lines_of(one.DESCRIPTOR).items()}


def test_no_field_and_no_call_of_the_earlier_version_is_gone_or_different() -> None:
    assert lost(contract()) == []


@pytest.mark.parametrize("part", ["job_id=1:string", "job_id=2:string", "job_id=1:bytes"])
def test_a_field_that_is_renamed_renumbered_or_retyped_is_noticed(part: str) -> None:
    now = contract()
    now["wattfold.v1.Job"] = now["wattfold.v1.Job"] - {"job_id=1:string"} | {part}
    expected = [] if part == "job_id=1:string" else ["wattfold.v1.Job job_id=1:string"]
    assert lost(now) == expected


def test_the_record_of_a_running_job_is_read_with_all_its_values() -> None:
    job = from_record("1", RECORD)
    assert job.state is JobState.RUNNING
    again = to_record(job)
    # Numbers of masks are reserved in steps, so that none is used twice.
    assert again.pop("seq_reserved") > RECORD["seq_reserved"]
    assert {name: again[name] for name in RECORD if name != "seq_reserved"} == {
        name: value for name, value in RECORD.items() if name != "seq_reserved"
    }
