"""Lists of a real site: filters at the coordinator, counts, orders and columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from system.site.live_site import LiveSite, wait_until

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
QUEUES = '[[queue]]\nname = "default"\n[[queue]]\nname = "short"\n'


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", coordinator=QUEUES)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def ids(site: LiveSite, *options: str) -> list[str]:
    return site.wattfold("queue", "--no-header", "-o", "id", *options).stdout.split()


def test_jobs_are_chosen_counted_and_ordered(site: LiveSite) -> None:
    first, second = (
        site.submit(["sleep", "1000"], size_min=2, app="md", queue="short") for _ in range(2)
    )
    site.running(first), site.running(second)
    waits = site.submit(["sleep", "1000"], size_min=2, app="fem")
    held = site.submit(["sleep", "1000"], app="md", held=True)
    node = site.job(first).shares[0].node_id
    assert ids(site, "--state", "running") == [first, second]
    assert ids(site, "--state", "waiting,held") == [waits, held]
    assert ids(site, "--app", "md", "--sort", "-id") == [held, second, first]
    assert ids(site, "--queue", "short", "--node", node) == [first]
    assert ids(site, "--since", "2100-01-01") == []
    counts = "2 running, 1 waiting, 1 held"
    assert site.wattfold("queue", "--limit", "1").stdout.splitlines()[0] == counts
    line = site.wattfold("queue", "-o", "id,cores,nodes,node_list", "--node", node).stdout
    assert line == f"ID\tCORES\tNODES\tNODE_LIST\n{first}\t2\t1\t{node}\n"
    missing = site.wattfold("queue", "--node", "n9", check=4)
    assert "no node 'n9'" in missing.stderr
    assert "no queue 'long'" in site.wattfold("queue", "--queue", "long", check=4).stderr


def test_nodes_are_chosen_and_ordered(site: LiveSite) -> None:
    job = site.submit(["sleep", "1000"], size_min=2)
    busy = site.running(job).shares[0].node_id
    idle = {"n0": "n1", "n1": "n0"}[busy]
    rows = wait_until(
        "a measured node",
        lambda: site.wattfold("nodes", "-o", "node,free,jobs", "--sort", "free").stdout,
    ).splitlines()
    assert rows == ["NODE\tFREE\tJOBS", f"{busy}\t0\t1", f"{idle}\t2\t0"]
    assert site.wattfold("nodes", "--state", "down").stdout == "No matching nodes.\n"


def test_the_history_has_the_same_options(site: LiveSite) -> None:
    done = site.submit(["true"], app="md", queue="short")
    site.ended(done)
    other = site.submit(["false"], app="md")
    site.ended(other)

    def ended(*options: str) -> list[str]:
        words = ("history", "--no-header", "-o", "id", *options)
        return site.wattfold(*words).stdout.split()

    wait_until("both jobs", lambda: {done, other} <= set(ended()))
    assert ended("--queue", "short", "--state", "completed") == [done]
    assert other in ended("--state", "failed,lost")
    both = [job for job in ended("--sort", "end") if job in (done, other)]
    assert both == [done, other]
    assert [job for job in ended() if job in (done, other)] == [other, done]


def test_the_documents_of_a_real_site_match_their_schemas(site: LiveSite) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    runs = site.submit(["sleep", "1000"], app="md", queue="short")
    site.running(runs)
    waits = site.submit(["sleep", "1000"], size_min=2)
    site.submit(["sleep", "1000"], held=True)
    site.ended(site.submit(["true"]))
    wait_until("the history", lambda: site.wattfold("history", "-o", "id", "--no-header").stdout)
    start = datetime.now() + timedelta(hours=3)  # noqa: DTZ005 - a local time
    site.wattfold(
        "reserve", "r", "--nodes", "n1", "--start", "+3h", "--duration", "1h", "--maintenance"
    )
    words = ("budget", "set", "100W", "--at", start.isoformat(timespec="seconds"))
    announced = json.loads(site.wattfold(*words, "--json").stdout)
    for name, command in {
        "queue": ["queue", "--all"],
        "show": ["show", runs],
        "nodes": ["nodes"],
        "queues": ["queues"],
        "power": ["power"],
        "budget-list": ["budget", "list"],
        "reservations": ["reservations"],
        "history": ["history"],
        "report": ["report", "--price-per-kwh", "0.3"],
    }.items():
        document = json.loads(site.wattfold(*command, "--json").stdout)
        [path] = SCHEMAS.glob(f"{name}-{document['schema']}.json")
        jsonschema.validate(document, json.loads(path.read_text(encoding="utf-8")))
        lists = [part for part in document.values() if isinstance(part, list)]
        assert name in ("show", "power") or any(lists), f"{name} shows nothing to validate"
    assert json.loads(site.wattfold("show", waits, "--json").stdout)["schema"] == 1
    site.wattfold("reserve", "--cancel", "r")
    site.wattfold("budget", "cancel", str(announced["number"]))
