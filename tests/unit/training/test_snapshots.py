"""Snapshots are complete or ignored: after an incomplete snapshot the previous one is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.training.snapshots import KEPT, SnapshotError, Snapshots


def saved(folder: Path, *contents: bytes) -> list[Path]:
    snapshots = Snapshots(folder)
    return [snapshots.save(lambda sink, data=data: sink.write(data)) for data in contents]


def test_the_newest_is_read_and_the_last_two_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for it"
    paths = saved(folder, b"one", b"two", b"three")
    assert sorted(folder.iterdir()) == paths[-KEPT:]
    found = Snapshots(folder).newest()
    assert found is not None
    assert (found.data, found.torn) == (b"three", ())


def test_none_is_none(tmp_path: Path) -> None:
    assert Snapshots(tmp_path / "nowhere").newest() is None


# Each forces several files to the disk.
@settings(max_examples=examples(20))
@given(st.data())
def test_one_that_is_cut_or_damaged_anywhere_is_not_used(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    contents = data.draw(st.lists(st.binary(max_size=200), min_size=2, max_size=4))
    newest = saved(folder, *contents)[-1]
    whole = newest.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    newest.write_bytes(data.draw(st.sampled_from([whole[:at], flipped])))
    snapshots = Snapshots(folder)
    found = snapshots.newest()
    assert found is not None
    assert found.data == contents[-2]
    assert str(newest) in found.torn[0]
    # The next snapshot replaces the incomplete one, not the valid one.
    snapshots.save(lambda sink: sink.write(b"next"))
    newest_now = Snapshots(folder).newest()
    assert newest_now is not None
    assert newest_now.data == b"next"
    assert found.path.exists()
    assert not newest.exists()


def test_where_none_is_whole_nothing_is_begun_anew_unasked(tmp_path: Path) -> None:
    (path,) = saved(tmp_path, b"one")
    path.write_bytes(b"on")
    with pytest.raises(SnapshotError, match=r"incomplete: 2 bytes.*move the files away"):
        Snapshots(tmp_path).newest()


def test_one_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    saved(folder, b"one")

    def full(sink: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    with pytest.raises(SnapshotError, match="No space left"):
        Snapshots(folder).save(full)
    found = Snapshots(folder).newest()
    assert found is not None
    assert found.data == b"one"
    assert len(list(folder.iterdir())) == 1
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=r"file/folder: Not a directory"):
        saved(tmp_path / "file" / "folder", b"two")
    with pytest.raises(SnapshotError, match=r"cannot read .*file: Not a directory"):
        Snapshots(tmp_path / "file").newest()
