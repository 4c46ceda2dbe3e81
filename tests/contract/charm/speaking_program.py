"""A process that speaks CCS as Charm++ programs do: signed or not, with each kind of handlers.

    python speaking_program.py KIND PES

KIND: maps, restarts, deaf (only the handler ccs_getinfo; prints its requests), slow (accepts a map
but never applies it), marked (like maps; an open file shows that it accepts maps). It listens on
``WATTFOLD_CCS_PORT`` (0: any) and prints the port. The server side of the protocol is written here
a second time, from its description, without the client's functions.
"""

import hashlib
import os
import socket
import struct
import sys


class Program:
    def __init__(self, kind: str, pes: int) -> None:
        self.kind = kind
        self.pes = pes
        self.launched = pes
        self.wanted = self.in_force = 0
        self.map = "1" * pes
        self.next_map = self.map

    def handle(self, name: str, data: bytes) -> bytes:
        if self.kind == "deaf":
            print(name, flush=True)
        if name == "ccs_getinfo":
            return struct.pack(f">{self.pes + 1}i", self.pes, *[1] * self.pes)
        if self.kind == "restarts" and name == "set_bitmap":
            bitmap, count, end = data[: self.pes], data[self.pes : -1], data[-1:]
            (wanted,) = struct.unpack("=i", count)
            kept = min(wanted, self.pes)
            assert (bitmap, end) == (b"\1" * kept + b"\0" * (self.pes - kept), b"\0")
            self.pes = wanted
        if self.kind in ("maps", "slow", "marked"):
            if name == "setmap_wattfold":
                number, self.next_map = data.decode().split()[1:]
                self.wanted = int(number)
                return self.state()
            if name == "getmap_wattfold":
                # The map is in force from the second request on.
                answer = self.state()
                if self.kind != "slow":
                    self.in_force, self.map = self.wanted, self.next_map
                return answer
        # The same answer for unknown handlers and set_bitmap.
        return b""

    def state(self) -> bytes:
        objects = ",".join("6" if use == "1" else "0" for use in self.map)
        pids = ",".join(str(os.getpid()) for _ in self.map)
        return f"WFMAP1 {self.wanted} {self.in_force} {self.map} {objects} {pids}".encode()


class Server:
    """Keeps the salts of its clients. With a key, it closes connections of unsigned requests."""

    def __init__(self, program: Program, key: bytes | None) -> None:
        self.program = program
        self.key = key
        self.salts: list[int] = []

    def serve(self, peer: socket.socket) -> None:
        first = receive(peer, 4)
        if self.key is None:
            peer.sendall(self.answer(peer, first + receive(peer, 36)))
        elif first[:2] == b"\x80\0" and first[2] == 1:
            (challenge,) = struct.unpack(">I", receive(peer, 4))
            peer.sendall(struct.pack(">I", 77))
            if receive(peer, 20) != self.sign(77):
                print("wrong key", flush=True)
                return
            self.salts.append(1000)
            client = struct.pack(">II", len(self.salts) - 1, 1000)
            peer.sendall(self.sign(challenge) + client)
        elif first[:2] == b"\x80\0" and first[2] == 0:
            client, challenge = struct.unpack(">II", receive(peer, 8))
            proof, header = receive(peer, 20), receive(peer, 40)
            if proof != self.sign(self.salts[client], header):
                print("wrong signature", flush=True)
                return
            self.salts[client] += 1
            peer.sendall(self.sign(challenge) + self.answer(peer, header))
        else:
            print("not signed", flush=True)

    def answer(self, peer: socket.socket, header: bytes) -> bytes:
        length, _pe, name = struct.unpack(">Ii32s", header)
        data = receive(peer, length)
        reply = self.program.handle(name.rstrip(b"\0").decode(), data)
        return struct.pack(">I", len(reply)) + reply

    def sign(self, salt: int, header: bytes = b"") -> bytes:
        assert self.key is not None
        block = (self.key + struct.pack(">I", salt) + header[:16]).ljust(52, b"\0")
        return hashlib.sha1(block).digest()


def receive(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = peer.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def main(kind: str, pes: int) -> None:
    digits = os.environ.get("WATTFOLD_CCS_KEY", "")
    key = bytes(int(digits[i : i + 2]) for i in range(0, 32, 2)) if digits else None
    server = Server(Program(kind, pes), key)
    if kind == "marked":
        os.memfd_create("wattfold-map")
    with socket.create_server(("127.0.0.1", int(os.environ["WATTFOLD_CCS_PORT"]))) as door:
        print(door.getsockname()[1], flush=True)
        while True:
            peer, _ = door.accept()
            with peer:
                try:
                    server.serve(peer)
                except (EOFError, ConnectionError):
                    print("broken off", flush=True)


main(sys.argv[1], int(sys.argv[2]))
