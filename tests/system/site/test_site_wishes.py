"""An evolving program asks for cores while it runs, says why, and gets them."""

from __future__ import annotations

import json
from collections.abc import Callable

from system.site.live_site import EXAMPLES, LiveSite, wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


def test_cores_follow_what_the_program_asks_for(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1, cpu_share=0.8)
    job_id = site.submit(
        [str(EXAMPLES / "evolving"), "2", "2000"],
        kind=pb.JOB_KIND_EVOLVING,
        size_min=1,
        size_max=2,
        mode=common_pb2.RESIZE_MODE_TEAM,
    )
    for phase, cores in (("setup", 1), ("solve", 2), ("write", 1)):

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
    assert site.ended(job_id).exit_code == 0
