"""A queue that holds jobs back for cheaper energy, on a real site."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.live_site import LiveSite

from wattfold.v1 import coordinator_pb2 as pb

CONFIG = """
energy_price = "{file}"

[[queue]]
name = "flexible"
price_hold_max_s = 36000.0

[[queue]]
name = "urgent"
"""
HOUR_S = 3600


def stamp(time_s: float) -> str:
    return datetime.datetime.fromtimestamp(time_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Series:
    """A file with one price for each hour from the current hour on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.first_s = time.time() // HOUR_S * HOUR_S

    def write(self, *prices: float) -> None:
        lines = [
            f"{stamp(self.first_s + hour * HOUR_S)},{price}" for hour, price in enumerate(prices)
        ]
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    made = Series(tmp_path_factory.mktemp("prices") / "prices.csv")
    made.write(200, 200, 200, 50, 200, 200)
    return made


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite], series: Series) -> LiveSite:
    return start_site(nodes=1, policy="fifo-easy", coordinator=CONFIG.format(file=series.file))


def test_a_job_waits_for_its_cheapest_hour_over_kill_9_and_until_prices_change(
    site: LiveSite, series: Series
) -> None:
    words = ("--estimate", "20m", "--queue")
    held = site.wattfold("submit", *words, "flexible", "--", "true").stdout.strip()
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    job = site.job(held)
    assert job.state == pb.JOB_STATE_PENDING
    assert job.reason.startswith("waits for cheaper energy, ")
    assert job.begin_at_s == pytest.approx(series.first_s + 3 * HOUR_S, abs=2)
    assert job.expected_start_at_s == pytest.approx(job.begin_at_s, abs=2)
    # Other queues are not affected, and neither is a job with a begin time of its own.
    assert site.ended(site.wattfold("submit", *words, "urgent", "--", "true").stdout.strip())
    own = site.wattfold("submit", "--begin", "now+1s", *words, "flexible", "--", "true")
    assert site.ended(own.stdout.strip()).state == pb.JOB_STATE_COMPLETED
    queues = json.loads(site.wattfold("--json", "queues").stdout)["queues"]
    assert [int(queue.get("price_hold_ns_max", 0)) for queue in queues] == [36_000 * 10**9, 0]
    # Prices of later submissions are those of the last reload.
    series.write(50, 50, 50, 50, 50, 50)
    answer = json.loads(site.wattfold("--json", "reload").stdout)
    assert answer["changed"] == ["energy_price"]
    again = site.wattfold("submit", *words, "flexible", "--", "true").stdout.strip()
    assert site.ended(again).state == pb.JOB_STATE_COMPLETED
    assert site.job(held).state == pb.JOB_STATE_PENDING
    site.wattfold("cancel", held)
