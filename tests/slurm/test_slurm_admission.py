"""Admission by watts: the licence, its reservation, and the module for job_submit.lua."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.resource_manager.port import ManagerError
from wattfold.coordinator.adapters.resource_manager.settings import SlurmSettings
from wattfold.coordinator.adapters.resource_manager.slurm import Slurm
from wattfold.coordinator.core.model.resource_manager import ManagedState
from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster, slurm_cluster

MODULE = Path(__file__).resolve().parents[2] / "packaging" / "slurm" / "job_submit_wattfold.lua"
TOTAL = 1000
_SITE = """
function slurm_job_submit(desc, partitions, uid)
   if desc.name == "forbidden" then return slurm.ERROR end
   return slurm.SUCCESS
end
function slurm_job_modify(desc, job, partitions, uid) return slurm.SUCCESS end
wattfold_watts_per_core = 10
pcall(dofile, "{path}")
return slurm.SUCCESS
"""
NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture(scope="module")
def licensed() -> Iterator[SlurmCluster]:
    """A node of eight CPUs in a Slurm with licences and the site's own script."""
    more = f"Licenses=watts:{TOTAL},matlab:5\nJobSubmitPlugins=lua\n"
    with slurm_cluster(cpus=8, more=more, lua=_SITE.format(path=MODULE)) as cluster:
        yield cluster


@pytest.fixture
def manager(licensed: SlurmCluster) -> Iterator[Slurm]:
    conf = str(licensed.root / "slurm.conf")
    yield Slurm(SlurmSettings(conf=conf, licence_total=TOTAL, timeout_s=30))
    licensed.cancel_all()


def submit(cluster: SlurmCluster, *words: str, uid: int | None = None) -> str:
    return cluster.call("sbatch", "--parsable", *words, "--wrap", "sleep 1000", uid=uid).strip()


def licence(cluster: SlurmCluster, number: str) -> str:
    return cluster.call("squeue", "-h", "-j", number, "-o", "%W").strip()


def state(cluster: SlurmCluster, number: str) -> str:
    return cluster.call("squeue", "-h", "-j", number, "-o", "%T").strip()


def test_the_offer_admits_jobs_and_never_ends_them(licensed: SlurmCluster, manager: Slurm) -> None:
    asyncio.run(manager.offer(25))
    first, second, third = (submit(licensed, "-c1") for _ in range(3))
    wait_until("two jobs run", lambda: state(licensed, second) == "RUNNING")
    assert state(licensed, third) == "PENDING"
    asyncio.run(manager.offer(5))
    assert [state(licensed, number) for number in (first, second)] == ["RUNNING", "RUNNING"]
    facts = asyncio.run(manager.read())
    waiting = next(job for job in facts.jobs if job.job_id == JobId(f"slurm-{third}"))
    assert waiting.state is ManagedState.PENDING
    asyncio.run(manager.offer(100))
    wait_until("the third job runs", lambda: state(licensed, third) == "RUNNING")
    # Slurm may lose the reservation with its state. The next offer makes it again.
    licensed.call("scontrol", "delete", "ReservationName=wattfold")
    asyncio.run(manager.offer(7))
    assert f"watts:{TOTAL - 7}" in licensed.call("scontrol", "show", "reservation")


def test_users_cannot_lower_or_fake_the_licence(licensed: SlurmCluster, manager: Slurm) -> None:
    asyncio.run(manager.offer(0))
    number = submit(licensed, "-n2", "-c2", "-L", "matlab:2", uid=NOBODY)
    assert set(licence(licensed, number).split(",")) == {"matlab:2", "watts:40"}
    for words in (["-L", "watts:1"], ["-L", "watts"], ["--licenses=matlab:1,watts:1"]):
        done = licensed.call("sbatch", *words, "--wrap", "true", check=False, uid=NOBODY)
        assert "the site sets the licence" in done, done
    update = ["scontrol", "update", f"JobId={number}"]
    # Slurm 22.05 does not show the user why a change was refused.
    done = licensed.call(*update, "Licenses=watts:1", check=False, uid=NOBODY)
    assert "error" in done.lower()
    assert set(licence(licensed, number).split(",")) == {"matlab:2", "watts:40"}
    licensed.call(*update, "Licenses=matlab:1", uid=NOBODY)
    assert set(licence(licensed, number).split(",")) == {"matlab:1", "watts:40"}
    licensed.call(*update, "Licenses=", check=False, uid=NOBODY)
    assert "watts:40" in licence(licensed, number)
    licensed.call(*update, "NumCPUs=6-6", check=False, uid=NOBODY)
    assert "watts:1" not in licence(licensed, number).split(",")
    refused = licensed.call("sbatch", "-J", "forbidden", "--wrap", "true", check=False)
    assert "error" in refused.lower()


def test_a_comment_of_the_site_leaves_the_comment_of_the_user(
    licensed: SlurmCluster, manager: Slurm
) -> None:
    asyncio.run(manager.offer(TOTAL))
    number = submit(licensed, "--comment=mine")
    job_id = JobId(f"slurm-{number}")
    comments = {job_id: 'cap 20 W; "1 of 2" cores', JobId("slurm-999999"): "gone"}
    asyncio.run(manager.tell(comments))
    shown = licensed.call("scontrol", "show", "job", number)
    # Slurm 22.05 keeps the quotes of an interactive command.
    (line,) = [line for line in shown.splitlines() if "AdminComment=" in line]
    assert "cap 20 W; 1 of 2 cores" in line
    assert "Comment=mine" in shown


def test_ends_and_errors_of_slurm(licensed: SlurmCluster, manager: Slurm) -> None:
    asyncio.run(manager.offer(TOTAL))
    quick = licensed.call("sbatch", "--parsable", "--wrap", "exit 3").strip()
    long = submit(licensed)
    ids = [JobId(f"slurm-{number}") for number in (quick, long, "777777")]
    wait_until("it has ended", lambda: state(licensed, quick) == "")
    licensed.call("scancel", long)
    wait_until("it is cancelled", lambda: state(licensed, long) == "")
    failed, cancelled, unknown = asyncio.run(manager.ends(ids))
    assert (failed.exit_code, failed.message) == (3, "FAILED in Slurm")
    assert (cancelled.cancelled, unknown.lost) == (True, True)
    nowhere = Slurm(SlurmSettings(commands="/nonexistent"))
    with pytest.raises(ManagerError, match="cannot be started"):
        asyncio.run(nowhere.read())
    late = Slurm(SlurmSettings(conf=os.devnull, timeout_s=0.1))
    with pytest.raises(ManagerError, match=r"failed|did not answer"):
        asyncio.run(late.read())


def _touch(script: Path, ahead_s: float) -> None:
    """Let Slurm read a script again, which it does if the script is newer than the last one."""
    at_s = time.time() + ahead_s
    os.utime(script, (at_s, at_s))


def test_without_the_module_jobs_start_without_a_licence(
    licensed: SlurmCluster, manager: Slurm
) -> None:
    asyncio.run(manager.offer(0))
    script = licensed.root / "job_submit.lua"
    with_module = script.read_text()
    try:
        script.write_text(_SITE.format(path="/nonexistent/module.lua"))
        _touch(script, 10)
        number = submit(licensed)
        assert "watts" not in licence(licensed, number)
        wait_until("it runs", lambda: state(licensed, number) == "RUNNING")
    finally:
        script.write_text(with_module)
        _touch(script, 20)
    assert "watts" in licence(licensed, submit(licensed))
