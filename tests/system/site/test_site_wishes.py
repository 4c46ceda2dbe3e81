"""An evolving program requests cores while it runs, states a reason, and gets them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from system.site.live_site import MARK, LiveSite, wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

PHASES = {"setup": 1, "solve": 2, "write": 1}
PROGRAM = f"""
import os, select
from wattfold.shims import follow

with follow() as job:
    for phase, cores in {PHASES}.items():
        job.phase(phase)
        assert job.request(cores)
        while not os.path.exists(phase + ".over"):
            job.update()
            select.select([], [], [], 0.02)
"""
"""Each phase lasts until its file is there."""


def test_cores_follow_what_the_program_asks_for(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1, cpu_share=0.8)
    job_id = site.submit(
        [sys.executable, "-c", PROGRAM],
        kind=pb.JOB_KIND_EVOLVING,
        size_min=1,
        size_max=2,
        mode=common_pb2.RESIZE_MODE_TEAM,
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), MARK: str(site.folder)},
    )
    for phase, cores in PHASES.items():

        def there(phase: str = phase, cores: int = cores) -> bool:
            job = site.job(job_id)
            assert job.state in (pb.JOB_STATE_PENDING, pb.JOB_STATE_STARTING, pb.JOB_STATE_RUNNING)
            return (job.phase, job.cores_wanted, job.size) == (phase, cores, cores)

        wait_until(f"{cores} cores to {phase}", there)
        if phase == "solve":
            shown = json.loads(site.wattfold("show", job_id, "--json").stdout)
            said = site.wattfold("explain", job_id).stdout
            assert "Its program requests 2 cores" in said, said
            assert "solve" in json.dumps(shown)
        (site.work / f"{phase}.over").touch()
    assert site.ended(job_id).exit_code == 0
