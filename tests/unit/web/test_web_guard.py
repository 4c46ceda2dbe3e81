"""Links, sessions, names and accounts of the dashboard."""

from __future__ import annotations

import os
import socket

import pytest

from wattfold.coordinator.cli.web.guard import (
    LINK_S,
    SESSIONS_MAX,
    Guard,
    may_connect,
    peer_uid,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(clock: Clock) -> Guard:
    return Guard(8765, clock)


def test_a_link_opens_one_session(guard: Guard) -> None:
    link = guard.new_link()
    session = guard.open_session(link)
    assert guard.knows(session)
    assert guard.open_session(link) == ""


def test_a_link_expires(guard: Guard, clock: Clock) -> None:
    link, early = guard.new_link(), guard.new_link()
    clock.now_s += LINK_S
    assert guard.open_session(early)
    clock.now_s += 0.1
    assert guard.open_session(link) == ""


@pytest.mark.parametrize("session", ["", "x", "é", "\udc80"])
def test_other_sessions_are_unknown(guard: Guard, session: str) -> None:
    guard.open_session(guard.new_link())
    assert not guard.knows(session)
    assert guard.open_session(session) == ""


def test_a_new_session_ends_the_oldest(guard: Guard) -> None:
    sessions = [guard.open_session(guard.new_link()) for _ in range(SESSIONS_MAX + 1)]
    assert not guard.knows(sessions[0])
    assert all(guard.knows(session) for session in sessions[1:])


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8765", True),
        ("localhost:8765", True),
        ("127.0.0.1:80", False),
        ("127.0.0.1", False),
        ("evil.example:8765", False),
        ("127.0.0.1.evil.example:8765", False),
        ("", False),
    ],
)
def test_names_of_the_server(guard: Guard, host: str, ours: bool) -> None:
    assert guard.names_us(host) == ours


def test_an_origin_has_the_host_of_the_request(guard: Guard) -> None:
    assert guard.own_page("http://127.0.0.1:8765", "127.0.0.1:8765")
    assert not guard.own_page("http://127.0.0.1:9999", "127.0.0.1:8765")
    assert not guard.own_page("http://localhost:8765", "127.0.0.1:8765")
    assert not guard.own_page("null", "127.0.0.1:8765")
    assert not guard.own_page("http://evil.example:8765", "evil.example:8765")


def test_a_tunnel_may_have_any_port_and_needs_no_link(clock: Clock) -> None:
    guard = Guard(None, clock)
    assert guard.names_us("localhost:1234")
    assert not guard.names_us("evil.example:1234")
    assert guard.knows(guard.open_session(""))


def test_a_socket_is_for_its_account_and_root() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.getuid()
    assert may_connect(os.geteuid())
    assert may_connect(0)
    assert not may_connect(os.geteuid() + 4321)
