"""Frames, requests and proofs of steps: packed data is read in any pieces; the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.ids import JobId
from wattfold.contract.step_protocol import (
    CONTROL_BYTES_MAX,
    DATA_BYTES_MAX,
    Frame,
    FrameKind,
    FrameReader,
    Meeting,
    StepError,
    StepExit,
    StepProtocolError,
    StepRequest,
    carried,
    job_line,
    of_a_node,
    parse_job_line,
)

FRAMES = st.lists(
    st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=CONTROL_BYTES_MAX))
)
FIELD = st.binary(max_size=50).map(lambda text: text.replace(b"\0", b""))
NAME = FIELD.map(lambda text: text.replace(b"=", b"") or b"A")


@given(frames=FRAMES, cuts=st.lists(st.integers(1, 2000)))
def test_frames_are_read_whole_in_whatever_pieces_they_come(
    frames: list[Frame], cuts: list[int]
) -> None:
    data = b"".join(frame.pack() for frame in frames)
    reader, found = FrameReader(FrameKind), []
    while data:
        size = cuts.pop() if cuts else len(data)
        piece, data = data[:size], data[size:]
        reader.feed(piece)
        found += list(reader.frames())
    assert found == frames


@given(data=st.binary(max_size=200))
def test_any_bytes_give_frames_or_an_error(data: bytes) -> None:
    reader = FrameReader({FrameKind.PROOF})
    reader.feed(data)
    try:
        assert all(frame.kind is FrameKind.PROOF for frame in reader.frames())
    except StepProtocolError:
        assert data[0] != FrameKind.PROOF or len(data) >= 5


@pytest.mark.parametrize("kind", sorted(set(FrameKind) - {FrameKind.PROOF}))
def test_a_frame_out_of_turn_is_refused_by_its_header(kind: FrameKind) -> None:
    reader = FrameReader({FrameKind.PROOF})
    reader.feed(Frame(kind).pack())
    with pytest.raises(StepProtocolError, match="unexpected"):
        list(reader.frames())


def test_a_frame_that_is_too_long_is_refused_before_its_body() -> None:
    reader = FrameReader(FrameKind)
    reader.feed(bytes([FrameKind.STDIN]) + (DATA_BYTES_MAX + 1).to_bytes(4, "little"))
    with pytest.raises(StepProtocolError, match="at most"):
        list(reader.frames())
    with pytest.raises(StepProtocolError, match="at most"):
        Frame(FrameKind.SIGNAL, b"x" * (CONTROL_BYTES_MAX + 1)).pack()


@given(command=FIELD, cwd=FIELD, env=st.lists(st.tuples(NAME, FIELD)))
def test_requests_come_back(command: bytes, cwd: bytes, env: list[tuple[bytes, bytes]]) -> None:
    request = StepRequest(command=command, cwd=cwd, env=tuple(env))
    assert StepRequest.unpack(request.pack()) == request


@given(body=st.binary(max_size=100))
def test_any_body_is_a_request_or_an_error(body: bytes) -> None:
    fields = body.split(b"\0")
    named = all(field.find(b"=") > 0 for field in fields[2:-1])
    if len(fields) < 3 or fields[-1] or not named:
        with pytest.raises(StepProtocolError):
            StepRequest.unpack(body)
    else:
        assert StepRequest.unpack(body).pack() == body


def test_a_request_with_a_nul_byte_is_refused() -> None:
    with pytest.raises(StepProtocolError, match="NUL"):
        StepRequest(command=b"a\0b", cwd=b"/").pack()


@given(code=st.integers(0, 255), signal=st.integers(0, 64))
def test_ends_come_back(code: int, signal: int) -> None:
    end = StepExit(code=code, signal=signal)
    assert StepExit.unpack(end.pack()) == end
    assert end.status == (128 + signal if signal else code)


@given(body=st.binary(max_size=12))
def test_any_body_is_an_end_or_an_error(body: bytes) -> None:
    try:
        assert 0 <= StepExit.unpack(body).status <= 255
    except StepProtocolError:
        assert len(body) != 8 or any(body[1:4]) or any(body[5:]) or body[4] > 127


@given(text=st.text(max_size=2000), not_yet=st.booleans())
def test_errors_fit_a_frame_and_hold_nothing_a_terminal_obeys(text: str, not_yet: bool) -> None:
    frame = StepError(text=text, not_yet=not_yet).frame()
    assert len(frame.body) <= CONTROL_BYTES_MAX
    found = StepError.unpack(frame.body)
    assert found.not_yet is not_yet
    assert found.text == "" or found.text.isprintable()


def meeting(**changes: object) -> Meeting:
    values = {
        "key": b"k" * 32,
        "job": "1",
        "node": "n1",
        "host_nonce": b"h" * 32,
        "shell_nonce": b"s" * 32,
    }
    return Meeting(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"key": b"x" * 32},
        {"job": "11", "node": "n"},
        {"node": "n2"},
        {"host_nonce": b"x" * 32},
        {"shell_nonce": b"x" * 32},
    ],
)
def test_a_proof_is_of_one_key_job_node_and_connection(change: dict[str, object]) -> None:
    assert meeting().shell_mac() != meeting(**change).shell_mac()
    assert meeting().host_mac() != meeting(**change).host_mac()


def test_a_proof_of_one_side_is_not_one_of_the_other() -> None:
    assert meeting().shell_mac() != meeting().host_mac()


def test_job_lines_come_back_and_others_are_refused() -> None:
    assert parse_job_line(job_line(JobId("a-1"))) == "a-1"
    for line in (b"", b"WFSTEP1 a", b"WFSTEP1 \n", b"WFSTEP1 ../x\n", b"GET / HTTP/1.1\n"):
        with pytest.raises(StepProtocolError):
            parse_job_line(line)
    with pytest.raises(StepProtocolError):
        parse_job_line(b"WFSTEP1 a\nmore\n")


def test_what_is_of_a_node_is_not_carried() -> None:
    env = {
        b"WATTFOLD_STEPS": b"/run/w/steps/1",
        b"WATTFOLD_LAUNCH_CPUS": b"8",
        b"OMP_NUM_THREADS": b"8",
        b"HYDRA_HOST_FILE": b"/run/w/steps/1/hosts",
        b"LD_PRELOAD": b"x",
        b"CUDA_VISIBLE_DEVICES": b"0",
        b"PATH": b"/bin",
    }
    assert carried(env) == ((b"PATH", b"/bin"),)
    assert carried({**env, b"OMP_NUM_THREADS": b"4"})[0] == (b"OMP_NUM_THREADS", b"4")
    assert of_a_node(b"TMPDIR")
    assert not of_a_node(b"LD_LIBRARY_PATH")
