"""Advice on a real site: from the jobs of its history to a table and a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from system.site.live_site import LiveSite

from wattfold.v1 import coordinator_pb2 as pb

JOBS_MOST = 400
"""Four segments need ten jobs each, whatever the pace of the machine."""


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", budget_w=150.0)


def test_a_short_history_is_refused_and_a_sufficient_one_gives_advice(site: LiveSite) -> None:
    words = ("advise", "--policies", "conservative", "--budgets", "100", "--workers", "1")
    whole: dict[str, Any] = {"unit": pb.SIZE_UNIT_NODES, "size_min": 1, "size_max": 1}
    first = site.submit(["true"], **whole)
    site.ended(first)
    refused = site.wattfold(*words, check=2)
    assert "1 jobs ran" in refused.stderr
    moments: list[float] = []
    length_ms = 0
    while not length_ms:
        assert len(moments) < JOBS_MOST, moments
        for job in [site.submit(["true"], **whole) for _ in range(20)]:
            site.ended(job)
        past = site.client.list_history(pb.ListHistoryRequest(limit=JOBS_MOST)).jobs
        moments = sorted(job.submitted_at_s for job in past)
        length_ms = next((ms for ms in range(20_000, 1, -10) if suffice(moments, ms / 1000)), 0)
    answer = json.loads(site.wattfold("--json", *words, "--segment", f"{length_ms}ms").stdout)
    assert answer["current"] == {"policy": "easy", "budget_w": 150.0}
    assert {one["policy"] for one in answer["options"]} == {"easy", "conservative"}
    assert answer["advice"]["sentences"]


def suffice(moments: list[float], length_s: float) -> bool:
    counts: dict[int, int] = {}
    for moment in moments:
        part = int((moment - moments[0]) // length_s)
        counts[part] = counts.get(part, 0) + 1
    return sum(count >= 10 for count in counts.values()) >= 4
