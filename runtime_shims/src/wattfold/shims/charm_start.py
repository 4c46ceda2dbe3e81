"""Starts a Charm++ program with a CCS server that only the agent of the node can use.

    python -m wattfold.shims.charm_start -- ./charmrun ++local +p8 ./program arguments
    python -m wattfold.shims.charm_start -- python -m charmrun.start ++local +p8 program.py

Left to itself Charm++ listens on all interfaces and asks nobody for a key. Here a port is chosen, a
key is made, and both are put where the agent looks (the environment, which other accounts cannot
read). The key reaches Charm++ as a file in memory only. Then this process becomes the program.
Another program may take the port in between; then Charm++ says so and ends.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Sequence

from wattfold.contract.ccs_protocol import KEY_BYTES
from wattfold.contract.processor_map import KEY_VARIABLE, PORT_VARIABLE

EXIT_USAGE = 2
EXIT_NOT_FOUND = 127


def new_key() -> str:
    """A key as Charm++ reads it: decimal pairs, so about 106 bits."""
    return "".join(f"{secrets.randbelow(100):02d}" for _ in range(KEY_BYTES))


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def key_file(key: str) -> str:
    """Path of a file in memory that says so; open in this process and those it becomes."""
    number = os.memfd_create("wattfold-ccs", 0)
    os.write(number, f"0 {key}\n".encode())
    # Processes of the program open it anew: by its number here it would be another file there.
    return f"/proc/{os.getpid()}/fd/{number}"


def ccs_arguments(port: int, auth_path: str) -> list[str]:
    """What charmrun, or a program that is its own charmrun, has to be told."""
    return ["++server", "++server-port", str(port), "++server-auth", auth_path]


def main(arguments: Sequence[str]) -> int:
    """Becomes the program; returns only when that fails."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("usage: python -m wattfold.shims.charm_start -- COMMAND...", file=sys.stderr)
        return EXIT_USAGE
    key, port = new_key(), free_port()
    environment = os.environ | {KEY_VARIABLE: key, PORT_VARIABLE: str(port)}
    command += ccs_arguments(port, key_file(key))
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - that is what it is for
    except OSError as error:
        print(f"wattfold: {command[0]}: {error.strerror}", file=sys.stderr)
    return EXIT_NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
