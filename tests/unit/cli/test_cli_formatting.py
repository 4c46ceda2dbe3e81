"""Human-readable numbers."""

from __future__ import annotations

import pytest

from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.v1 import coordinator_pb2 as pb


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.6, "1m00s"),
        (185, "3m05s"),
        (3600, "1h00m"),
        (86_399, "23h59m"),
        (450_000, "5d05h"),
        (-1, "-"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert f.duration(seconds) == text


def test_powers_and_energies() -> None:
    assert f.watts(0) == "-"
    assert f.watts(45_500_000) == "45.5"
    assert f.power(0) == "0.0 W"
    assert f.power(4_751_360_000_000) == "4751.36 kW"
    assert f.energy(12_300_000) == "12.3 J"
    assert f.energy(12_300_000_000) == "12.30 kJ"
    assert f.energy(12_300_000_000_000) == "12.30 MJ"


def test_sizes_of_jobs() -> None:
    spec = pb.JobSpec(unit=pb.SIZE_UNIT_CORES, size_min=1, size_max=4)
    assert f.size(pb.Job(spec=spec)) == "1-4"
    assert f.size(pb.Job(spec=spec, size=2)) == "2/1-4"
    nodes = pb.JobSpec(unit=pb.SIZE_UNIT_NODES, size_min=3, size_max=3)
    assert f.size(pb.Job(spec=nodes)) == "3n"
    assert f.size(pb.Job(spec=nodes, size=3)) == "3n"


def test_a_state_of_a_newer_coordinator_is_shown_by_its_number() -> None:
    job = pb.Job()
    job.ParseFromString(b"\x18\x63")  # field 3, state, value 99
    assert f.job_state(job.state) == "state-99"
    assert f.job_state(pb.JOB_STATE_RUNNING) == "running"
    assert f.job_state(pb.JOB_STATE_UNSPECIFIED) == "unknown"
