"""Invalid message bodies, a fenced coordinator, and a budget that replaced another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from system.site.live_site import CPUS, LiveSite, built, run_command, site_plan, wait_until
from system.site.test_site_fencing import started_often
from trust.head import Head

from wattfold.contract.bodies import UNREADABLE, lenient
from wattfold.contract.repeats import SUBJECTS_MAX, Repeats
from wattfold.coordinator.adapters.requests.profiles import profile_from
from wattfold.coordinator.demo import site as demo_site
from wattfold.v1 import coordinator_pb2, node_agent_pb2

GARBAGE = [b"\xff" * 30, b"\x0a\xff", random.Random(8).randbytes(200), b"\x07"]
COORDINATOR = coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"]
AGENT = node_agent_pb2.DESCRIPTOR.services_by_name["NodeAgent"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    if not built() or len(CPUS) < 2:
        pytest.skip("needs the example programs (scripts/build_shims) and two CPUs")
    with LiveSite(site_plan(nodes=1), tmp_path_factory.mktemp("site") / "logs") as site:
        yield site
    wait_until("all processes have ended", lambda: not site.processes())


def codes(socket: Path, service: str, method: str, streams: bool) -> set[grpc.StatusCode]:
    """Return the status codes of a method for invalid message bodies."""
    found = set()
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        name = f"/{service}/{method}"
        call = channel.unary_stream(name) if streams else channel.unary_unary(name)
        for body in GARBAGE:
            with pytest.raises(grpc.RpcError) as error:
                list(call(body, timeout=240))
            found.add(error.value.code())
    return found


@pytest.mark.parametrize("service", [COORDINATOR, AGENT], ids=lambda service: service.name)
def test_a_body_that_is_no_message_is_refused_and_told_once(site: LiveSite, service) -> None:
    to_agent = service is AGENT
    socket = site.agent_socket(0) if to_agent else site.coordinator_socket
    for method in service.methods:
        found = codes(socket, service.full_name, method.name, method.server_streaming)
        assert found == {grpc.StatusCode.INVALID_ARGUMENT}, method.name
    log = (site.logs / ("n0.log" if to_agent else "coordinator.log")).read_text()
    assert "Traceback" not in log
    told = [line for line in log.splitlines() if "event=unreadable_request" in line]
    assert len(told) == 1
    assert ("peer=unix" if to_agent else "account=root") in told[0]


def test_a_fenced_coordinator_is_never_ready(site: LiveSite, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.mkdir(mode=0o700)
    started_often(newer, epoch=41)
    arguments = ["--config", str(site.folder / "coordinator.toml"), "--state-dir", str(newer)]
    log = tmp_path / "newer.log"
    second = demo_site._start(
        "wattfold-coordinator", [*arguments, "--listen", f"unix:{newer}/c.sock"], log, {}
    )
    try:
        demo_site._await_ready(second, "newer coordinator", log)
        assert site.coordinator.wait(240) == 5
        again = run_command("wattfold-coordinator", *arguments[:2])
        assert again.returncode == 5
        assert "obeys another coordinator" in again.stderr
        assert "ready" not in again.stdout
        # A coordinator of the same epoch sends the same request ids, and is refused anyway.
        same = tmp_path / "same"
        same.mkdir(mode=0o700)
        started_often(same, epoch=41)
        third = run_command(
            *("wattfold-coordinator", *arguments[:2], "--state-dir", str(same)),
            *("--listen", f"unix:{same}/c.sock"),
        )
        assert third.returncode == 5
        assert "ready" not in third.stdout
    finally:
        second.terminate()
        assert second.wait(240) == 0
        assert second.stdout is not None
        second.stdout.close()


def test_a_coordinator_is_ready_beside_a_node_that_is_off(tmp_path: Path) -> None:
    with Head(tmp_path, "--node", f"n0=unix:{tmp_path}/nobody.sock") as head:
        assert head.json("nodes")["nodes"][0]["node_id"] == "n0"


def test_a_start_tells_why_the_configured_budget_is_not_used(tmp_path: Path) -> None:
    with Head(tmp_path) as head:
        assert head.json("power")["configured_budget_uw"] == 100_000_000
        assert "configured" not in head.wattfold("power").stdout
        assert head.wattfold("budget", "set", "75W").returncode == 0
        head.process.kill()
        head.process.wait(240)
        head.client.close()
        head.process.stdout.close()
        head.start()
        told = [line for line in head.log.read_text().splitlines() if "configured_budget" in line]
        assert len(told) == 1
        assert "budget_w=75.0 configured_w=100.0" in told[0]
        assert "`wattfold budget` replaced it" in told[0]
        shown = head.wattfold("power").stdout
        assert "75.0 W" in shown
        assert "100.0 W  replaced by `wattfold budget`" in shown


def test_an_unknown_unit_of_a_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="unit 77 of the profile is unknown"):
        profile_from(coordinator_pb2.Profile(app="x", unit=77))  # type: ignore[arg-type]


def fails(_body: bytes) -> str:
    raise ValueError


def test_a_reader_that_fails_gives_the_marker_and_other_errors_pass() -> None:
    reader = lenient(fails, ValueError)
    assert reader is not None
    assert reader(b"x") is UNREADABLE
    strict: Callable[[bytes], object] | None = lenient(fails, KeyError)
    assert strict is not None
    with pytest.raises(ValueError):  # noqa: PT011
        strict(b"x")
    assert lenient(None, ValueError) is None


def test_a_sender_is_told_of_at_once_and_then_once_a_minute_with_the_count() -> None:
    repeats = Repeats()
    assert [repeats.one_more("a", second) for second in (0, 1, 30, 59, 60, 61)] == [
        1,
        0,
        0,
        0,
        4,
        0,
    ]
    assert repeats.one_more("b", 1) == 1
    for number in range(SUBJECTS_MAX + 10):
        repeats.one_more(f"s{number}", 100)
    assert repeats.one_more("late", 101) == 0, "all others share one line"
    assert repeats.one_more("later", 200) == 1, "quiet subjects are forgotten"
