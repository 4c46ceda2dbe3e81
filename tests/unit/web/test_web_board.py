"""What a browser receives: changes since its version, history and segments."""

from __future__ import annotations

import array
import asyncio
import json
from typing import Any

from unit.cli.fake_budgets import W

from wattfold.coordinator.cli.web import board as board_module
from wattfold.coordinator.cli.web.board import Board, VersionedRows
from wattfold.coordinator.cli.web.causes import CAUSES
from wattfold.coordinator.cli.web.occupancy import COLUMNS, END, Occupancy, SegmentRows
from wattfold.coordinator.cli.web.power_ring import BIN_S, PowerRing
from wattfold.coordinator.cli.web.rows import JOB_COLUMNS, NODE_COLUMNS, RowCache, shown_job
from wattfold.coordinator.cli.web.snapshots import ENDED_KEPT, Converter
from wattfold.v1 import coordinator_pb2 as pb

NO_CAUSES = dict.fromkeys(CAUSES, 0.0)


def job(job_id: str, cpus: str = "", **fields: Any) -> pb.Job:
    made = pb.Job(job_id=job_id, state=pb.JOB_STATE_RUNNING, attempt=1, **fields)
    if cpus:
        made.shares.add(node_id="n1", cpus=cpus)
    return made


def view(time_s: float, *jobs: pb.Job) -> pb.ClusterView:
    return pb.ClusterView(
        time_s=time_s,
        power=pb.Power(budget_uw=100 * W, committed_uw=40 * W, measured_uw=30 * W),
        nodes=[pb.Node(node_id="n1", state=pb.NODE_STATE_UP, committed_uw=40 * W)],
        jobs=jobs,
    )


def messages(*views: pb.ClusterView, since: int) -> dict[str, Any]:
    async def run() -> str:
        board, converter = Board(), Converter()
        for each in views:
            await board.take(converter.snapshot(each))
        return board.message(since)

    found: dict[str, Any] = json.loads(asyncio.run(run()))
    return found


def test_version_0_gets_everything() -> None:
    found = messages(view(1, job("1"), job("2")), since=0)
    assert found["whole"]
    assert [row[0] for row in found["jobs"]] == ["1", "2"]
    assert [len(row) for row in found["jobs"]] == [len(JOB_COLUMNS)] * 2
    assert [len(row) for row in found["nodes"]] == [len(NODE_COLUMNS)]


def test_a_later_version_gets_changed_and_removed_rows() -> None:
    before = view(1, job("1"), job("2"), job("3"))
    after = view(2, job("1"), job("3", reason="now"))
    found = messages(before, after, since=1)
    assert not found["whole"]
    assert [row[0] for row in found["jobs"]] == ["3"]
    assert found["gone_jobs"] == ["2"]
    assert found["nodes"] == []


def test_ended_jobs_stay_up_to_a_limit() -> None:
    ended = [
        pb.Job(job_id=str(n), state=pb.JOB_STATE_COMPLETED, ended_at_s=n + 1)
        for n in range(ENDED_KEPT + 5)
    ]
    found = messages(view(1, *ended), view(2), since=0)
    assert len(found["jobs"]) == ENDED_KEPT
    assert found["jobs"][0][0] == "5"


def test_a_browser_far_behind_gets_everything(monkeypatch: Any) -> None:
    monkeypatch.setattr(board_module, "REMOVED_MAX", 2)
    rows = VersionedRows()
    rows.take(1, {str(n): (n,) for n in range(5)})
    rows.take(2, {})
    assert rows.removed(0) is None


def test_a_loss_is_a_version() -> None:
    async def run() -> dict[str, Any]:
        board = Board()
        await board.take(Converter().snapshot(view(1, job("1"))))
        await board.lose("no answer")
        found: dict[str, Any] = json.loads(board.message(1))
        return found | {"newer": await board.newer(1)}

    found = asyncio.run(run())
    assert found["lost"] == "no answer"
    assert found["newer"] == 2
    assert found["jobs"] == []


def test_a_bin_keeps_the_highest_measured_power() -> None:
    ring = PowerRing()
    ring.add(1000.0, 100.0, 30.0, NO_CAUSES)
    ring.add(1004.0, 90.0, 50.0, NO_CAUSES)
    assert ring.add(1009.9, 80.0, 40.0, NO_CAUSES)[:3] == (0.0, 80.0, 50.0)
    assert ring.add(1010.0, 80.0, 20.0, NO_CAUSES)[:3] == (float(BIN_S), 80.0, 20.0)
    values = array.array("f")
    values.frombytes(ring.packed())
    assert len(values) == 2 * (3 + len(CAUSES))


def test_the_ring_forgets_old_bins() -> None:
    ring = PowerRing(hours=BIN_S * 3 / 3600)
    for n in range(5):
        last = ring.add(BIN_S * n, 1.0, n, NO_CAUSES)
    assert last[0] == 4 * BIN_S
    assert len(ring.packed()) == 4 * 3 * (3 + len(CAUSES))


def test_a_clock_that_steps_back_changes_the_last_bin() -> None:
    ring = PowerRing()
    ring.add(1000.0, 1.0, 5.0, NO_CAUSES)
    assert ring.add(900.0, 2.0, 1.0, NO_CAUSES)[:3] == (0.0, 2.0, 5.0)


def test_a_resize_ends_a_segment_and_begins_the_next() -> None:
    occupancy = Occupancy()
    (first,) = occupancy.take([job("1", "0-3", started_at_s=5.0)], 10.0)
    assert (first.cpus, first.start_s, first.end_s, first.resized) == ("0-3", 5.0, 0.0, False)
    assert occupancy.take([job("1", "0-3")], 11.0) == []
    ended, begun = occupancy.take([job("1", "0-1")], 12.0)
    assert (ended.number, ended.end_s) == (first.number, 12.0)
    assert (begun.cpus, begun.start_s, begun.resized) == ("0-1", 12.0, True)
    (last,) = occupancy.take([], 13.0)
    assert (last.number, last.end_s) == (begun.number, 13.0)


def test_another_cap_or_attempt_is_no_resize() -> None:
    occupancy = Occupancy()
    occupancy.take([job("1", "0", cap_uw=5 * W)], 1.0)
    assert not any(s.resized for s in occupancy.take([job("1", "0", cap_uw=6 * W)], 2.0))
    requeued = job("1", "1", cap_uw=6 * W)
    requeued.attempt = 2
    assert not any(s.resized for s in occupancy.take([requeued], 3.0))


def test_old_segments_are_forgotten() -> None:
    rows = SegmentRows(ended_max=2)
    ended = [
        tuple(n if c == "number" else 50.0 if c == "end_s" else "" for c in COLUMNS)
        for n in range(4)
    ]
    assert all(row[END] == 50.0 for row in ended)
    rows.take(1, ended, 60.0)
    assert [row[0] for row in rows.changed(0)] == [2, 3]
    rows.take(2, [], 60.0 + 7 * 3600)
    assert rows.changed(0) == []


def test_an_unchanged_message_keeps_its_row() -> None:
    cache = RowCache[pb.Job](shown_job)
    first = cache.rows([job("1")])["1"]
    assert cache.rows([job("1")])["1"] is first
    assert cache.rows([job("1", reason="other")])["1"] is not first


def test_values_that_json_lacks_are_0() -> None:
    found = messages(view(1, job("1", remaining_s=float("nan"), due={})), since=0)
    assert found["jobs"][0][JOB_COLUMNS.index("remaining_s")] == 0.0
