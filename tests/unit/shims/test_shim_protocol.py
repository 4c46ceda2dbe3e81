"""Bytes exchanged between agent and shim."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.shim_protocol import (
    HEADER_BYTES,
    TEXT_BYTES_MAX,
    FrameError,
    ShimFlags,
    ShimMessage,
    ShimMessageType,
)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
WORK = st.floats(0, allow_nan=False, allow_infinity=False)
MESSAGES = st.builds(
    ShimMessage,
    type=st.sampled_from(ShimMessageType),
    flags=st.sampled_from([ShimFlags(number) for number in range(4)]),
    seq=U64,
    cores=U32,
    pid=U32,
    time_ns=U64,
    regions=U64,
    done=WORK,
    total=WORK,
    max_team=U32,
    notice=U32,
    text=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
)
MASK = ShimMessage(
    type=ShimMessageType.MASK,
    flags=ShimFlags.TEAM_FOLLOWS,
    seq=0x0102030405060708,
    cores=4,
    pid=0x11223344,
    time_ns=5,
    regions=6,
    done=1.5,
    total=2.0,
    max_team=7,
    notice=0x55667788,
    text="0-3",
)


@given(MESSAGES)
def test_what_is_packed_is_unpacked(message: ShimMessage) -> None:
    assert ShimMessage.unpack(message.pack()) == message


def test_the_layout_byte_by_byte() -> None:
    assert MASK.pack() == bytes.fromhex(
        "57464631 0200 0100 0807060504030201 04000000 44332211"
        "0500000000000000 0600000000000000 000000000000f83f 0000000000000040 07000000 88776655"
        "302d33"
    )
    assert HEADER_BYTES == 64


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        MASK.pack()[:63],
        b"\0" + MASK.pack()[1:],
        MASK.pack()[:4] + b"\x00\x00" + MASK.pack()[6:],
        MASK.pack()[:4] + b"\x06\x00" + MASK.pack()[6:],
        MASK.pack()[:6] + b"\x04\x00" + MASK.pack()[8:],
        MASK.pack() + "é".encode(),
        MASK.pack()[:64] + b"0" * (TEXT_BYTES_MAX + 1),
        MASK.pack()[:40] + b"\xff" * 8 + MASK.pack()[48:],  # NaN
    ],
)
def test_other_bytes_are_refused(frame: bytes) -> None:
    with pytest.raises(FrameError):
        ShimMessage.unpack(frame)


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(frame: bytes) -> None:
    try:
        message = ShimMessage.unpack(frame)
    except FrameError:
        return
    assert message.pack() == frame


@pytest.mark.parametrize(
    "wrong",
    [
        {"seq": -1},
        {"seq": 2**64},
        {"cores": 2**32},
        {"notice": 2**32},
        {"done": math.nan},
        {"total": math.inf},
        {"done": -1.0},
        {"text": "€"},
        {"text": "x" * (TEXT_BYTES_MAX + 1)},
        {"flags": ShimFlags(4)},
    ],
)
def test_values_that_do_not_fit_are_refused(wrong: dict[str, object]) -> None:
    message = ShimMessage(type=ShimMessageType.ACK, **wrong)  # type: ignore[arg-type]
    with pytest.raises(FrameError):
        message.pack()
