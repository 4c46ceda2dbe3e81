"""Pickles of jobs and submissions, as they travel to worker processes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields

import pytest

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.pickled_state import pickled_by_position
from wattfold.coordinator.core.model.plan import Waiting
from wattfold.coordinator.models.pass_model import SizeUnit

SPEC = JobSpec(
    name="md",
    app="namd",
    argv=("run", "--fast"),
    kind=JobKind.MALLEABLE,
    unit=SizeUnit.NODES,
    size_max=4,
    time_ns=3600,
    features=("gpu",),
    among=(NodeId("n1"),),
)
JOB = Job(
    job_id=JobId("7"),
    spec=SPEC,
    state=JobState.RUNNING,
    submitted_ns=5,
    reason="no power",
    done=0.25,
)
WAITING = Waiting(
    job_id=JobId("8"), reason="no nodes", start_ns=9, promise=Promise(start_ns=9, nodes=())
)


@pytest.mark.parametrize("value", [SPEC, JOB, WAITING], ids=lambda value: type(value).__name__)
def test_all_fields_survive_a_pickle_and_a_copy(value: object) -> None:
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(again) is type(value)
        for part in fields(value):  # type: ignore[arg-type]
            assert getattr(again, part.name) == getattr(value, part.name), part.name


def test_a_frozen_object_is_frozen_after_its_pickle() -> None:
    again = pickle.loads(pickle.dumps(SPEC))
    with pytest.raises(FrozenInstanceError):
        again.name = "other"
    assert again == SPEC
    assert hash(again) == hash(SPEC)


def test_names_of_fields_are_not_written_for_each_object() -> None:
    """A message holds thousands of jobs, so it holds their values only."""
    assert b"requeue_max" not in pickle.dumps(SPEC)
    assert b"submitted_ns" not in pickle.dumps(JOB)


def test_a_pickle_with_another_number_of_fields_is_refused() -> None:
    pair = pickled_by_position(Pair)
    with pytest.raises(ValueError, match="values to unpack"):
        pair(a=1, b=2).__setstate__((1,))  # type: ignore[attr-defined]


@dataclass(slots=True, kw_only=True)
class Pair:
    """Two fields."""

    a: int
    b: int
