"""Naps of a residual PE: messages end them, but data on sockets without a reader does not."""

import os
import socket
import threading

from wattfold.shims import charm_idle
from wattfold.shims.charm_idle import (
    NAP_MS_MAX,
    NAP_MS_MIN,
    UNSERVED_NAPS,
    Doze,
    nap_when_idle,
    network_sockets,
)


def udp_pair():
    one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    one.bind(("127.0.0.1", 0))
    other.connect(one.getsockname())
    return one, other


def test_only_sockets_of_the_network_are_watched():
    one, other = udp_pair()
    left, right = socket.socketpair()
    with one, other, left, right:
        found = network_sockets()
        assert {one.fileno(), other.fileno()} <= set(found)
        assert not {left.fileno(), right.fileno()} & set(found)


def test_a_socket_that_nobody_reads_is_dropped_and_the_others_stay():
    one, other = udp_pair()
    read, sender = udp_pair()
    with one, other, read, sender:
        other.send(b"for nobody")
        doze = Doze([one.fileno(), read.fileno()])
        for _ in range(UNSERVED_NAPS - 1):
            sender.send(b"message")
            doze.nap()
            # As the layer does between two naps. A nap without data to read ends the series.
            read.recv(100)
        assert doze.sockets == {one.fileno(), read.fileno()}
        doze.nap()
        assert doze.sockets == {read.fileno()}


def test_a_socket_on_which_data_comes_too_fast_ends_naps_again_when_it_has_been_read():
    one, other = udp_pair()
    with one, other:
        doze = Doze([one.fileno()])
        for _ in range(UNSERVED_NAPS):
            # New data arrives each time the layer has read the previous data.
            other.send(b"part")
            doze.nap()
            one.recv(100)
        assert doze.sockets == set()
        doze.nap()
        assert doze.sockets == {one.fileno()}
        later = threading.Timer(0.001, other.send, [b"message"])
        later.start()
        doze.next_ms = NAP_MS_MAX
        doze.nap()
        assert doze.next_ms == NAP_MS_MIN
        later.join()


def test_a_socket_that_is_read_stays_however_many_naps_it_ends():
    one, other = udp_pair()
    with one, other:
        doze = Doze([one.fileno()])
        for _ in range(2 * UNSERVED_NAPS):
            # Each message arrives while the PE is asleep; the layer then reads it.
            later = threading.Timer(0.001, other.send, [b"message"])
            later.start()
            doze.next_ms = NAP_MS_MAX
            doze.nap()
            later.join()
            one.recv(100)
        assert doze.sockets == {one.fileno()}


def test_without_the_layer_that_polls_nothing_is_changed(monkeypatch):
    monkeypatch.delenv(charm_idle.LAYER_VARIABLE, raising=False)
    assert not nap_when_idle(None, lambda: True)
    assert charm_idle.LAYER_VARIABLE not in os.environ


def test_naps_grow_while_nothing_comes_and_begin_anew_with_a_message():
    one, other = udp_pair()
    with one, other:
        doze = Doze([one.fileno()])
        lengths = []
        for _ in range(4):
            lengths.append(doze.next_ms)
            doze.nap()
        assert lengths == [NAP_MS_MIN * 2**turn for turn in range(4)]
        other.send(b"message")
        doze.nap()
        assert doze.next_ms == NAP_MS_MIN


def test_naps_have_a_longest_and_a_shorter_one_where_the_program_waits_for_a_time(monkeypatch):
    asked = []

    class Poll:
        def register(self, number, events):
            pass

        def poll(self, most_ms):
            asked.append(most_ms)
            return []

    monkeypatch.setattr("select.poll", Poll)
    doze = Doze([])
    for _ in range(20):
        doze.nap()
    assert max(asked) == asked[-1] == NAP_MS_MAX
    doze.nap(NAP_MS_MIN)
    assert asked[-1] == NAP_MS_MIN
