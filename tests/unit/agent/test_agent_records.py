"""Job records on disk, including records of earlier versions."""

import json
from collections import Counter

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.core.residual import ResidualMeter
from wattfold.nodeagent.service.jobs.records import Job, JobState, from_record, to_record


def a_job() -> Job:
    cpus = CpuSet.parse("0-2")
    return Job(
        id=JobId("a"),
        state=JobState.RUNNING,
        cpus=cpus,
        held=cpus,
        mode=ResizeMode.MASK,
        launch_cpus=3,
    )


def test_what_was_accounted_survives():
    job = a_job()
    job.residual = ResidualMeter(total_ns=70, by_cpu=Counter({3: 50, 5: 20}))
    job.core_ns, job.idle_energy_uj, job.voluntary_switches = 11, 12, 13
    job.gpu_used_uj = {"GPU-a": 14, "GPU-b": 15}
    back = from_record("a", json.loads(json.dumps(to_record(job))))
    assert back.residual == ResidualMeter(total_ns=70, by_cpu=Counter({3: 50, 5: 20}))
    assert (back.core_ns, back.idle_energy_uj, back.voluntary_switches) == (11, 12, 13)
    assert (back.gpu_used_uj, back.gpu_energy_uj) == ({"GPU-a": 14, "GPU-b": 15}, 29)


def test_a_record_of_an_earlier_version_is_taken():
    record = to_record(a_job())
    for name in ("core_ns", "held_since_ns", "idle_energy_uj", "residual_by_cpu"):
        del record[name]
    record["residual_cpu_ns"] = 9
    back = from_record("a", record)
    assert (back.residual.total_ns, dict(back.residual.by_cpu), back.core_ns) == (9, {}, 0)


def test_cores_held_times_time():
    job = a_job()
    job.settle(1000)
    job.settle(1500)
    job.held = CpuSet.parse("0")
    job.settle(1600)
    assert job.core_ns == 3 * 500 + 100
