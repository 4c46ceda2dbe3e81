"""Downloads: resumed, verified, and complete or absent."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import random
from pathlib import Path

import pytest
from unit.workloads.archive_server import Site, served

from wattfold.simulator.workloads.archive import ARCHIVE
from wattfold.simulator.workloads.download import fetch
from wattfold.simulator.workloads.errors import FetchError

PLAIN = random.Random(1).randbytes(300_000)
CONTENT = gzip.compress(PLAIN, mtime=0)
SUM = hashlib.sha256(CONTENT).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_first_fetch_learns_the_sum_and_the_next_one_asks_nobody(tmp_path: Path) -> None:
    site, target, seen = Site(content=CONTENT), tmp_path / "log.gz", []
    with served(site) as address:
        url = f"{address}/log.gz"
        fetched = fetch(url, target, progress=lambda there, total: seen.append((there, total)))
        assert (fetched.learnt, fetched.was_there, fetched.sha256) == (True, False, SUM)
        assert fetched.size == len(CONTENT)
        again = fetch(url, target)
        assert (again.learnt, again.was_there, again.sha256) == (False, True, SUM)
    assert target.read_bytes() == CONTENT
    assert (tmp_path / "log.gz.sha256").read_text() == f"{SUM}  log.gz\n"
    assert names(tmp_path) == ["log.gz", "log.gz.sha256"]
    assert site.asked == [None]
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_broken_connection_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    site = Site(content=CONTENT, cut_after=100_000)
    with served(site) as address:
        assert fetch(f"{address}/log.gz", tmp_path / "log.gz", SUM).learnt is False
    assert (tmp_path / "log.gz").read_bytes() == CONTENT
    assert site.asked == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]


def test_a_later_fetch_resumes_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "log.gz.part").write_bytes(CONTENT[:5000])
    (tmp_path / "log.gz.part.tag").write_text('"v1"')
    site = Site(content=CONTENT)
    with served(site) as address:
        fetch(f"{address}/log.gz", tmp_path / "log.gz", SUM)
    assert site.asked == ["bytes=5000-"]
    assert names(tmp_path) == ["log.gz", "log.gz.sha256"]


@pytest.mark.parametrize(
    ("tag", "site"),
    [
        ('"v0"', Site(content=CONTENT)),  # another version
        (None, Site(content=CONTENT)),  # the server states no version
        ('"v1"', Site(content=CONTENT, ranges=False)),  # a server without byte ranges
    ],
)
def test_parts_that_cannot_be_joined_are_thrown_away(
    tmp_path: Path, tag: str | None, site: Site
) -> None:
    (tmp_path / "log.gz.part").write_bytes(b"x" * 5000)
    if tag:
        (tmp_path / "log.gz.part.tag").write_text(tag)
    site.asked.clear()
    with served(site) as address:
        fetch(f"{address}/log.gz", tmp_path / "log.gz", SUM)
    assert (tmp_path / "log.gz").read_bytes() == CONTENT
    assert len(site.asked) == 1


def test_a_part_as_long_as_the_file_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "log.gz.part").write_bytes(CONTENT)
    (tmp_path / "log.gz.part.tag").write_text('"v1"')
    site = Site(content=CONTENT)
    with served(site) as address:
        fetch(f"{address}/log.gz", tmp_path / "log.gz", SUM)
    assert site.asked == [f"bytes={len(CONTENT)}-", None]


def test_a_wrong_sum_removes_what_came(tmp_path: Path) -> None:
    with served(Site(content=CONTENT)) as address:
        with pytest.raises(FetchError, match=f"SHA-256 is {SUM}, expected 000"):
            fetch(f"{address}/log.gz", tmp_path / "log.gz", "0" * 64)
        assert "log.gz" not in names(tmp_path)
        assert "log.gz.part" not in names(tmp_path)


def test_the_sum_of_the_first_fetch_binds_later_ones(tmp_path: Path) -> None:
    site = Site(content=CONTENT)
    with served(site) as address:
        fetch(f"{address}/log.gz", tmp_path / "log.gz")
        (tmp_path / "log.gz").write_bytes(b"changed")
        with pytest.raises(FetchError, match="expected"):
            fetch(f"{address}/log.gz", tmp_path / "log.gz")
        (tmp_path / "log.gz").unlink()
        site.content = gzip.compress(b"other", mtime=0)
        with pytest.raises(FetchError, match="expected"):
            fetch(f"{address}/log.gz", tmp_path / "log.gz")


def test_without_a_known_sum_broken_gzip_data_are_refused(tmp_path: Path) -> None:
    with (
        served(Site(content=CONTENT[:-5])) as address,
        pytest.raises(FetchError, match="not whole gzip data"),
    ):
        fetch(f"{address}/log.gz", tmp_path / "log.gz")
    assert "log.gz" not in names(tmp_path)


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (Site(content=CONTENT, status=404), "the server says 404"),
        (Site(content=CONTENT, cut_after=0), "check the network"),
    ],
)
def test_servers_that_do_not_deliver(tmp_path: Path, site: Site, words: str) -> None:
    with served(site) as address, pytest.raises(FetchError, match=words) as caught:
        fetch(f"{address}/log.gz", tmp_path / "log.gz")
    assert "\n" not in str(caught.value)


def test_another_part_than_asked_for_is_refused(tmp_path: Path) -> None:
    site = Site(content=CONTENT, cut_after=1000, wrong_part=True)
    with (
        served(site) as address,
        pytest.raises(FetchError, match="a different part than requested"),
    ):
        fetch(f"{address}/log.gz", tmp_path / "log.gz")


def test_no_server_at_all_keeps_what_is_there(tmp_path: Path) -> None:
    with served(Site(content=b"")) as address:
        pass
    (tmp_path / "log.gz.part").write_bytes(CONTENT[:50])
    (tmp_path / "log.gz.part.tag").write_text('"v1"')
    with pytest.raises(FetchError, match="50 bytes are kept"):
        fetch(f"{address}/log.gz", tmp_path / "log.gz")
    assert (tmp_path / "log.gz.part").read_bytes() == CONTENT[:50]


def test_two_fetches_of_one_file_exclude_each_other(tmp_path: Path) -> None:
    with (
        (tmp_path / "log.gz.part").open("ab") as other,
        served(Site(content=CONTENT)) as address,
    ):
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FetchError, match="another process"):
            fetch(f"{address}/log.gz", tmp_path / "log.gz")


def test_bad_addresses_folders_and_records(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="not an http"):
        fetch("file:///etc/passwd", tmp_path / "x")
    with pytest.raises(FetchError, match="No such file"):
        fetch("http://127.0.0.1:9/x", tmp_path / "none" / "x")
    (tmp_path / "x.sha256").write_text("nonsense")
    with pytest.raises(FetchError, match="holds no SHA-256 sum"):
        fetch("http://127.0.0.1:9/x", tmp_path / "x")


def test_the_archive_has_one_file_a_name() -> None:
    assert len({log.path for log in ARCHIVE.values()}) == len(ARCHIVE)
    for name, log in ARCHIVE.items():
        assert name == log.name
        assert log.url().startswith("https://")
        assert log.url("http://m/").startswith("http://m/l_")
        assert log.file_name.endswith(".swf.gz")
