"""Frames of programs, and rows of the journal, are read or refused whatever is in them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
import tempfile
from pathlib import Path

import pytest
from believes.test_believes_18_files import damaged
from believes.watched import MEMORY, no_traceback
from contract.agent.shim_peer import FIRST, JOB, Shim
from effort import examples
from found.test_found_22_safety_rules import held_job
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.core.stage import Stage

from wattfold.contract.shim_protocol import MAGIC, ShimMessageType
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.state.state import State
from wattfold.nodeagent.adapters import wire
from wattfold.nodeagent.adapters.shims.shim_server import ShimServer

U32, U64 = st.sampled_from([0, 1, 4, 2**31, 2**32 - 1]), st.sampled_from([0, 1, 1001, 2**64 - 1])
F64 = st.sampled_from([0.0, 1.0, -1.0, 1e300, float("inf"), float("nan")])
TEXT = st.sampled_from(
    [
        *(b"", b"libgomp", b"request=6 phase=assembly", b"request=99999999999", b"request=-1"),
        *(b"request=" + b"9" * 200, b"phase=", b"phase=\0", b"\xff", b"= = =", b"x" * 300),
    ]
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame whose fields are at the ends of their ranges, seldom cut off."""
    kind = draw(st.sampled_from([*ShimMessageType, 0, 6, 65_535]))
    numbers = (draw(U32), draw(U32), draw(U64), draw(U64), draw(F64), draw(F64), draw(U32))
    magic = draw(st.sampled_from([MAGIC] * 9 + [0]))
    flags = draw(st.sampled_from([0, 1, 2, 3, 4, 65_535]))
    frame = struct.pack("<IHHQIIQQddII", magic, kind, flags, draw(U64), *numbers, draw(U32))
    frame += draw(TEXT)
    return frame[: draw(st.integers(0, len(frame)))] if draw(st.integers(0, 9)) == 0 else frame


@settings(max_examples=examples(60))
@given(st.lists(frames(), min_size=1, max_size=30))
def test_any_frame_of_a_program_is_read_or_passed_over(sent: list[bytes]) -> None:
    async def go() -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder, no_traceback():
            own = os.getpid()
            server = ShimServer(
                Path(folder) / "shims",
                lambda pid: JOB if pid == own else None,
                lambda _job, _pid: FIRST,
            )
            server.start()
            server.open(JOB, os.geteuid())
            shims = [Shim(server.endpoint(JOB)) for _ in range(2)]
            try:
                for frame in sent:
                    await shims[0].socket.send(frame)
                for shim in shims:
                    await shim.say(ShimMessageType.HELLO)
                    while (await shim.hear()).type is not ShimMessageType.MASK:
                        pass
                wire.job_usage(held_job(), server.view(JOB))
            finally:
                for shim in shims:
                    shim.close()
                server.close()

    asyncio.run(go())


def stage_with_a_job() -> Stage:
    """A node, and a job from its submission to its start."""
    stage = Stage(1000)
    stage.up("n0")
    stage.run_job("a", "n0:0-1", cap_w=30)
    return stage


STAGE = stage_with_a_job()
ROWS = [codec.dump_event(event) for event, _ in STAGE.history]
ROW = st.sampled_from(ROWS).flatmap(
    lambda row: st.tuples(st.just(row[0]), damaged(json.loads(row[1])).map(json.dumps))
)


@settings(max_examples=examples(200))
@given(ROW | st.tuples(st.sampled_from([row[0] for row in ROWS]), st.text(max_size=20)))
def test_a_damaged_row_of_the_journal_is_an_event_or_refused(row: tuple[str, str]) -> None:
    with contextlib.suppress(codec.CodecError):
        assert type(codec.load_event(*row)).__name__ == row[0]


@settings(max_examples=examples(100))
@given(damaged(json.loads(codec.dump_state(STAGE.core.state))).map(json.dumps))
def test_a_damaged_checkpoint_is_a_state_or_refused(text: str) -> None:
    with contextlib.suppress(codec.CodecError):
        assert isinstance(codec.load_state(text), State)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "\ud800"])
def test_a_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(codec.CodecError):
        codec.load_event("BudgetChanged", text)
