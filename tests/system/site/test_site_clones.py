"""The processes of a test site are clones of one that has imported the product (`tests/warm`).

A start in the ordinary way is as good for every other test, and takes several times as long. So
nobody would notice it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from system.site.calendars import WHY_NOT, Calendar
from system.site.live_site import LiveSite, wait_until
from warm import start
from warm.commands import WORKER

pytestmark = pytest.mark.skipif(
    subprocess.Popen is start.ORDINARY, reason="needs a kernel that clones can be made on"
)


def is_clone(pid: int) -> bool:
    """Whether the arguments that the kernel shows are not where execve(2) puts them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    stack_start, arguments_start = int(fields[25]), int(fields[45])
    return arguments_start < stack_start


@pytest.mark.parametrize("calendar", ["true", "set"])
def test_agents_coordinators_and_their_workers_are_clones(
    start_site: Callable[..., LiveSite],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    calendar: str,
) -> None:
    # However the paths of modules are written.
    paths = map(os.path.relpath, filter(None, sys.path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    if calendar == "set":
        if WHY_NOT:
            pytest.skip(WHY_NOT)
        with Calendar(tmp_path / "calendar").faked():
            site = start_site(nodes=1)
        assert "faketime" in Path(f"/proc/{site.agent(0).pid}/maps").read_text()
    else:
        site = start_site(nodes=1)
    assert not is_clone(os.getpid())
    assert is_clone(site.agent(0).pid)
    coordinator = psutil.Process(site.coordinator.pid)
    assert is_clone(coordinator.pid)

    def workers() -> list[int]:
        found = [one for one in coordinator.children() if WORKER in one.cmdline()]
        return [one.pid for one in found] if len(found) == 2 else []

    assert all(map(is_clone, wait_until("the workers for plans and views", workers)))
