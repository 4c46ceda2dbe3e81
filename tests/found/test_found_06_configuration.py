"""Reading and reloading a configuration of many nodes does not delay lease renewals."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from wattfold.contract import toml_places
from wattfold.coordinator.adapters.agents.membership import Membership
from wattfold.coordinator.adapters.config import values
from wattfold.coordinator.adapters.config.nodes import NodeEntry
from wattfold.coordinator.adapters.config.settings import Config, load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.reloading import Reloader
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.ramp_limits import RampLimits


def written(folder: Path, nodes: int, more: str = "") -> Path:
    path = folder / f"{nodes}.toml"
    lines = ["budget_w = 1000.0"]
    for number in range(nodes):
        lines += ["[[node]]", f'id = "n{number}"', f'address = "h:{number + 1}"']
        lines += ['features = ["fast"]', "place = [1, 2]"]
    lines += ["[[queue]]", 'name = "short"', "time_limit_s = 5.0", more]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys whose line was searched for in the text of the file."""
    found: list[str] = []
    line_of = toml_places.line_of

    def noted(text: str, key: str, table: str = "", index: int = 0) -> int:
        found.append(f"{table}.{key}")
        return line_of(text, key, table, index)

    monkeypatch.setattr(values, "line_of", noted)
    return found


def test_no_line_is_looked_up_where_nothing_is_wrong(tmp_path: Path, looked_up: list[str]) -> None:
    assert len(load(written(tmp_path, 50), {}).nodes) == 50
    assert looked_up == []


def test_a_message_names_the_line_of_the_key(tmp_path: Path, looked_up: list[str]) -> None:
    path = written(tmp_path, 50, "cores_max = -1")
    with pytest.raises(ConfigError, match=rf"{path}, line 255: queue.cores_max = -1 is outside"):
        load(path, {})
    assert looked_up == ["queue.cores_max"]


class Members:
    """Records updates to a new configuration and their threads."""

    def __init__(self) -> None:
        self.followed: list[tuple[int, int]] = []

    def follow(self, entries: Sequence[NodeEntry]) -> None:
        self.followed.append((len(entries), threading.get_ident()))

    def follow_queues(self, queues: Sequence[Queue]) -> None:
        pass

    def follow_accounts(self, wanted: AccountsConfigured) -> None:
        pass

    def follow_ramp(self, limits: RampLimits) -> None:
        pass


class Site:
    """A configuration file and its reloader; ``readers`` are the threads that have read it."""

    def __init__(self, folder: Path) -> None:
        self.path = written(folder, 3)
        self.members, self.readers = Members(), list[int]()
        self.may_read = threading.Event()
        self.may_read.set()
        config = load(self.path, {})
        members = cast(Membership, self.members)
        self.reloader = Reloader(config, self._read, members, Planning(), lambda _: None)

    def _read(self) -> Config:
        self.readers.append(threading.get_ident())
        assert self.may_read.wait(240)
        return load(self.path, {})


class Planning:
    async def change(self, policy: Policy) -> None:
        raise AssertionError("the policy is the same")


def test_a_reload_with_nothing_changed_touches_no_node(tmp_path: Path) -> None:
    site = Site(tmp_path)
    asyncio.run(site.reloader.reload())
    assert len(site.readers) == 1
    assert site.members.followed == []


def test_a_thread_reads_and_the_loop_takes_over(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.path.write_text(written(tmp_path, 4).read_text())
    asyncio.run(site.reloader.reload())
    assert site.readers != [threading.get_ident()]
    assert site.members.followed == [(4, threading.get_ident())]


def test_the_loop_runs_while_a_thread_reads(tmp_path: Path) -> None:
    """All requests during a read cause one more read, which sees the file as it is then."""
    site = Site(tmp_path)
    site.may_read.clear()

    async def run() -> None:
        site.reloader.request()
        while not site.readers:
            await asyncio.sleep(0)
        site.path.write_text(written(tmp_path, 4).read_text())
        for _ in range(5):
            site.reloader.request()
        site.may_read.set()
        while len(site.readers) < 2 or not site.members.followed:
            await asyncio.sleep(0)
        await site.reloader.close()

    asyncio.run(run())
    assert len(site.readers) == 2
    assert site.members.followed[-1][0] == 4
