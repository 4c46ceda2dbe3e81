"""A hybrid program from `submit` to its end: ranks with their own cores."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from system.site.live_site import EXAMPLES, LiveSite

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

AS_ROOT = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


def test_a_hybrid_job(start_site: Callable[..., LiveSite]) -> None:
    if shutil.which("mpirun") is None or not (EXAMPLES / "hybrid").exists():
        pytest.skip("needs mpirun, and the example built with its mpicc")
    site = start_site(nodes=1, cpu_share=0.8)
    job = site.submit(
        ["/bin/sh", "-c", f"{AS_ROOT}; exec mpirun -n 2 {EXAMPLES}/hybrid 200 2000"],
        kind=pb.JOB_KIND_MALLEABLE,
        size_min=2,
        size_max=2,
        tasks_per_node=2,
        mode=common_pb2.RESIZE_MODE_TEAM,
    )
    errors = site.work / f"wattfold-{job}.err"
    assert site.ended(job).exit_code == 0, errors.read_text()
    output = (site.work / f"wattfold-{job}.out").read_text()
    assert output.startswith("jacobi n=200 iterations=2000 residual=")
