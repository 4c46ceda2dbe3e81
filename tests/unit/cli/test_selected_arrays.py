"""Selections by state take whole arrays only if all affected tasks are selected."""

from __future__ import annotations

import pytest

from wattfold.coordinator.cli.jobs.control import CANCELLED_STATES
from wattfold.coordinator.cli.jobs.selection import split_arrays
from wattfold.v1 import coordinator_pb2 as pb

RUNNING, PENDING, ENDED = pb.JOB_STATE_RUNNING, pb.JOB_STATE_PENDING, pb.JOB_STATE_COMPLETED


def array(job_id: str, *states: pb.JobState) -> pb.Job:
    counts = [pb.JobCount(state=state, jobs=1) for state in states]
    return pb.Job(job_id=job_id, state=states[0], array=pb.JobArray(counts=counts))


@pytest.mark.parametrize(
    ("states", "whole", "parts"),
    [
        (CANCELLED_STATES, {"1", "2", "3"}, set()),
        ((RUNNING,), {"2"}, {"1"}),
        ((PENDING,), {"3"}, {"1"}),
        ((RUNNING, PENDING), {"1", "2", "3"}, set()),
        ((pb.JOB_STATE_HELD,), set(), set()),
    ],
)
def test_an_array_is_selected_as_a_whole_or_in_part(
    states: tuple[pb.JobState, ...], whole: set[str], parts: set[str]
) -> None:
    jobs = [
        array("1", RUNNING, PENDING, ENDED),
        array("2", RUNNING, ENDED),
        array("3", PENDING),
        pb.Job(job_id="4", state=RUNNING),
        array("5", ENDED),
    ]
    assert split_arrays(jobs, states, CANCELLED_STATES) == (whole, parts)
