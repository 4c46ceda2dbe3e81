"""Queues that hold jobs back for cheaper energy: configuration and begin times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.adapters.test_budgets import FixedClock
from unit.adapters.test_config import complaint, read
from unit.core.stage import S, Stage, job_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.metrics.exposition import waiting_reason
from wattfold.coordinator.adapters.requests.price_holds import held_back
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL, StartConditions
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.energy_price import EnergyPrice

H = 3600 * S
QUEUE = Queue(name="flexible", price_hold_ns=6 * H)
SPEC = replace(job_spec(), queue="flexible", time_ns=H)
NODE = '[[node]]\nid = "n0"\naddress = "unix:/run/n0.sock"\n'
FLEXIBLE = '[[queue]]\nname = "flexible"\nprice_hold_max_s = 3600\n'


class Prices:
    """Prices from now on, one for each hour, with the clock of a stage."""

    def __init__(self, *prices: float) -> None:
        self.stage = Stage(100)
        self.stage.up("n0")
        self.clock = FixedClock(self.stage)
        now_s = self.clock.wall_s(self.stage.now_ns)
        times = tuple(now_s + 3600.0 * hour for hour in range(len(prices)))
        self.price = EnergyPrice(times, prices)

    def hours(
        self,
        spec: JobSpec = SPEC,
        queue: Queue | None = QUEUE,
        conditions: StartConditions = UNCONDITIONAL,
    ) -> float:
        """The hours for which a job of now is held back; -1 = it is not."""
        found = held_back(conditions, spec, queue, self.price, self.clock)
        if not found.cheaper:
            assert found == conditions
            return -1
        return round((found.begin_ns - self.stage.now_ns) / H, 6)


@pytest.fixture
def falling() -> Prices:
    return Prices(0.4, 0.3, 0.2, 0.1, 0.4, 0.4, 0.4, 0.4, 0.05, 0.05)


def test_a_job_waits_for_its_cheapest_hour_within_the_limit_of_the_queue(falling: Prices) -> None:
    assert falling.hours() == 3
    assert falling.hours(queue=replace(QUEUE, price_hold_ns=2 * H)) == 2
    assert falling.hours(queue=replace(QUEUE, price_hold_ns=9 * H)) == 8
    assert falling.hours(replace(SPEC, time_ns=2 * H)) == 2


def test_without_an_estimate_the_time_limit_counts(falling: Prices) -> None:
    assert falling.hours(replace(SPEC, time_ns=0, limit_ns=2 * H)) == 2
    assert falling.hours(replace(SPEC, time_ns=0, limit_ns=0)) == -1


def test_a_due_date_stays_reachable(falling: Prices) -> None:
    due_ns = falling.stage.now_ns + 3 * H
    assert falling.hours(replace(SPEC, due_ns=due_ns)) == 2
    assert falling.hours(replace(SPEC, due_ns=due_ns, time_ns=4 * H)) == -1


def test_who_is_not_held_back(falling: Prices) -> None:
    assert falling.hours(queue=None) == -1
    assert falling.hours(queue=Queue(name="urgent")) == -1
    assert falling.hours(replace(SPEC, reservation="maintenance")) == -1
    assert falling.hours(conditions=StartConditions(begin_ns=falling.stage.now_ns + H)) == -1
    assert Prices(0.2, 0.2, 0.2, 0.2).hours() == -1
    assert held_back(UNCONDITIONAL, SPEC, QUEUE, None, falling.clock) == UNCONDITIONAL


def test_the_core_gives_the_reason_and_starts_the_job_at_its_time(falling: Prices) -> None:
    stage = falling.stage
    conditions = held_back(UNCONDITIONAL, SPEC, QUEUE, falling.price, falling.clock)
    event = ev.JobSubmitted(job_id=JobId("a"), spec=SPEC, conditions=conditions)
    assert codec.load_event(*codec.dump_event(event)) == event
    stage.send(event)
    job = stage.core.state.jobs[JobId("a")]
    assert (job.state, job.reason) == (JobState.WAITING, "waits for cheaper energy")
    assert job.expected_start_ns == conditions.begin_ns
    assert waiting_reason(job) == "cheaper_energy"
    stage.after((conditions.begin_ns - stage.now_ns) / S)
    assert job.state is JobState.PENDING


def test_the_configuration_has_prices_as_a_table_or_a_file(tmp_path: Path) -> None:
    table = 'energy_price = "0:00 0.12, 7:00 0.24"\n'
    config = read(tmp_path, table + FLEXIBLE + NODE)
    assert config.energy_price is not None
    assert config.energy_price.at(7 * 3600) == 0.24
    assert config.queues[0].price_hold_ns == H
    series = tmp_path / "prices.csv"
    series.write_text("2026-05-01T00:00Z,90\n2026-05-01T01:00Z,40\n")
    config = read(tmp_path, f'energy_price = "{series}"\n' + FLEXIBLE + NODE)
    assert config.energy_price is not None
    assert config.energy_price.eur_per_kwh == (0.09, 0.04)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FLEXIBLE, "queue flexible holds jobs back, but there are no prices; set energy_price"),
        ('energy_price = "prices.csv"\n', "neither a daily table nor an absolute path"),
        ('energy_price = "/nowhere/p.csv"\n', "No such file or directory"),
        ('energy_price = "7:00 x"\n', "'x' is not a price"),
        (
            'energy_price = "0:00 0.1"\n' + FLEXIBLE + "wait_max_s = 60\n",
            "price_hold_max_s = 3600 s is above wait_max_s = 60 s",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, text + NODE)
