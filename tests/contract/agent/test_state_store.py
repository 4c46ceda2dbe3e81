"""Records on disk."""

import errno
import os

import pytest

from wattfold.nodeagent.adapters.state_store import StateDirError, StateStore, device_refusal
from wattfold.nodeagent.core.errors import Broken, NoSpace


@pytest.fixture
def store(tmp_path):
    found = StateStore(tmp_path / "state")
    yield found
    found.close()


def test_a_record_is_read_back(store):
    store.write("a.json", {"x": 1})
    assert store.read("a.json") == {"x": 1}
    assert store.read("b.json") is None
    store.remove("a.json")
    assert store.read("a.json") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_damaged_record_is_set_aside(store, content):
    (store.root / "a.json").write_bytes(content)
    assert store.read("a.json") is None
    assert (store.root / "a.json.damaged").read_bytes() == content


def test_a_second_agent_is_refused(store):
    with pytest.raises(StateDirError, match="another agent"):
        StateStore(store.root)


def test_a_folder_that_others_can_change_is_refused(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(StateDirError, match="777"):
        StateStore(tmp_path / "s")


def test_a_failed_write_leaves_the_old_record(store):
    store.write("a.json", {"x": 1})
    (store.root / "a.json.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        store.write("a.json", {"x": 2})
    assert store.read("a.json") == {"x": 1}


def test_a_full_disk_is_told_apart():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x")
    assert isinstance(device_refusal(full, "cannot write"), NoSpace)
    assert "/x" in str(device_refusal(full, "cannot write"))
    assert isinstance(device_refusal(OSError(errno.EIO, "io"), "cannot write"), Broken)
