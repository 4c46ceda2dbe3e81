"""A site under the account of this process, for the test of ordinary users. Not a test itself.

It prints one line of JSON when jobs have run, and ends at the end of its standard input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from system.site.live_site import EXAMPLES, LiveSite, site_plan, thread_masks, wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


def main() -> None:
    """Run a malleable team, let it shrink for a second job, and report."""
    with LiveSite(site_plan(nodes=1, cpu_share=0.8), Path(sys.argv[1]) / "logs") as site:
        team = site.submit(
            [str(EXAMPLES / "compute"), "10000000"],
            kind=pb.JOB_KIND_MALLEABLE,
            size_min=1,
            size_max=2,
            mode=common_pb2.RESIZE_MODE_TEAM,
        )
        site.running(team)
        pid = site.pid(team)
        wait_until("two cores", lambda: {len(m) for m in thread_masks(pid).values()} == {2})
        over = site.work / "over"
        wait = 'id -u; while [ ! -e "$0" ]; do sleep 0.1; done'
        second = site.submit(["/bin/sh", "-c", wait, str(over)])
        wait_until("one core", lambda: {len(m) for m in thread_masks(pid).values()} == {1})
        wait_until("one thread", lambda: site.job(team).team_size == 1)
        over.touch()
        ended = site.ended(second)
        site.client.cancel(team)
        left = site.submit(["/bin/sleep", "1000"])
        site.running(left)
        node = site.node(0)
        report = {
            "uid": (site.work / f"wattfold-{second}.out").read_text().strip(),
            "exit_code": ended.exit_code,
            "team": pb.JobState.Name(site.ended(team).state),
            "masks": node.mask_mechanism,
            "throttle": node.throttle_mechanism,
            "sockets": [
                str(site.coordinator_socket),
                str(site.agent_socket(0)),
                str(site.agent_socket(0).parent / "shims" / left / "sock"),
            ],
        }
        print(json.dumps(report), flush=True)
        sys.stdin.read()
        site.client.cancel(left)
        site.ended(left)
        site.check_record()


main()
