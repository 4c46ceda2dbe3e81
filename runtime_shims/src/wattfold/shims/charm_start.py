"""Starts a Charm++ program with a CCS server that only the agent of the node can use.

    python -m wattfold.shims.charm_start --charm4py program.py arguments
    python -m wattfold.shims.charm_start -- ./charmrun ++local ./program arguments
    python -m wattfold.shims.charm_start --rebuild -- ./charmrun ./program arguments

The program gets one PE for each core the job can ever have (``WATTFOLD_LAUNCH_CPUS``, over several
nodes ``WATTFOLD_PES``; outside of a job, for each CPU it may use), unless the command says ``+pN``
itself. ``--charm4py`` runs a Python program under the charmrun of charm4py, on all its nodes.
``--rebuild`` is for one that restarts itself at another size on this node (built with
``--enable-shrinkexpand``): its processes are started by a shell here, as with ``++local`` those
that are started anew would inherit the socket of the server, and it gets a folder of its own for
its objects meanwhile (`charm_checkpoint`).

Left to itself Charm++ listens on all interfaces and asks nobody for a key. Here a port is chosen, a
key is made, and both are put where the agent looks (the environment, which other accounts cannot
read). The key reaches Charm++ as a file in memory only. Then this process becomes the program, or
the shell that waits for it.
Another program may take the port in between; then Charm++ says so and ends.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence

from wattfold.contract.ccs_protocol import KEY_BYTES
from wattfold.contract.processor_map import KEY_VARIABLE, PORT_VARIABLE
from wattfold.shims import charm_checkpoint

EXIT_USAGE = 2
EXIT_NOT_FOUND = 127
PES_VARIABLES = ("WATTFOLD_PES", "WATTFOLD_LAUNCH_CPUS")
CHARM4PY, REBUILD = "--charm4py", "--rebuild"
LOCAL_SHELL = "wattfold.shims.charm_shell"
_USAGE = """usage: python -m wattfold.shims.charm_start --charm4py PROGRAM.py ARGUMENTS...
       python -m wattfold.shims.charm_start [--rebuild] -- COMMAND...

Start a Charm++ program with a CCS server that only the agent of its node can use.

  --charm4py  Start a charm4py program with charmrun. Default: start COMMAND.
  --rebuild   Prepare COMMAND for restarts with another number of PEs.
  -h, --help  Print this help."""
_HELP = (["-h"], ["--help"])
_PES = re.compile(r"\+p(\d+)$|\+\+?(?:p|n|np|processPer\w+|auto-provision|autoProvision)$")


def new_key() -> str:
    """A key as Charm++ reads it: decimal pairs, so about 106 bits."""
    return "".join(f"{secrets.randbelow(100):02d}" for _ in range(KEY_BYTES))


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def key_file(key: str) -> str:
    """Path of a file in memory that says so."""
    return memory_file("wattfold-ccs", f"0 {key}\n")


def memory_file(name: str, text: str) -> str:
    """Path of a file that is open in this process and those it becomes, and nowhere on a disk."""
    number = os.memfd_create(name, 0)
    os.write(number, text.encode())
    # Processes of the program open it anew: by its number here it would be another file there.
    return f"/proc/{os.getpid()}/fd/{number}"


def ccs_arguments(port: int, auth_path: str) -> list[str]:
    """What charmrun, or a program that is its own charmrun, has to be told."""
    return ["++server", "++server-port", str(port), "++server-auth", auth_path]


def local_arguments(pes: int) -> list[str]:
    """What makes charmrun start so many processes on this node, now and after each restart."""
    nodes = memory_file("wattfold-nodes", "group main\n" + "host 127.0.0.1\n" * pes)
    return ["++nodelist", nodes, "++remote-shell", f"{sys.executable} -m {LOCAL_SHELL}"]


def pes_wanted(environment: Mapping[str, str]) -> int | None:
    """One PE for each core the job can get; None outside of a job."""
    texts = [environment.get(name, "") for name in PES_VARIABLES]
    counts = (int(text) for text in texts if text.isascii() and text.isdecimal())
    return next((count for count in counts if count), None)


def pes_arguments(command: Sequence[str], pes: int | None) -> list[str]:
    """``+pN`` for a command that does not say how many PEs it wants, else nothing."""
    said = any(_PES.match(word) for word in command)
    return [] if said or pes is None else [f"+p{pes}"]


def other_pes(command: Sequence[str], pes: int | None) -> str:
    """What is wrong with the number of PEs in a command, empty if nothing is."""
    found = next((m[1] for word in command if (m := _PES.match(word)) and m[1]), None)
    if found is None or pes is None or int(found) == pes:
        return ""
    return f"+p{found} does not match the {pes} cores of the job, so no processor map fits; omit +p"


def _command(arguments: Sequence[str]) -> list[str]:
    """The command to become, without what is added to it; empty if there is none."""
    if arguments[:1] == [CHARM4PY]:
        program = list(arguments[1:])
        pes = pes_arguments(program, pes_wanted(os.environ) or len(os.sched_getaffinity(0)))
        # Over several nodes charmrun finds them, and our remote shell, in the environment.
        here = [] if os.environ.get(PES_VARIABLES[0]) else ["++local"]
        charmrun = [sys.executable, "-m", "charmrun.start", *here, *pes]
        return [*charmrun, *program] if program else []
    if arguments[:1] == [REBUILD]:
        command = _plain(arguments[1:])
        pes_max = pes_wanted(os.environ) or len(os.sched_getaffinity(0))
        return [*command, *local_arguments(pes_max)] if command else []
    return _plain(arguments)


def _in_own_folder(command: Sequence[str]) -> list[str]:
    charm_checkpoint.remove_left()
    folder = charm_checkpoint.own_folder()
    return charm_checkpoint.removing(folder, [*command, *charm_checkpoint.arguments(folder)])


def _plain(arguments: Sequence[str]) -> list[str]:
    return list(arguments[1:] if arguments[:1] == ["--"] else arguments)


def main(arguments: Sequence[str]) -> int:
    """Becomes the program; returns only when that fails."""
    if list(arguments) in _HELP:
        print(_USAGE)
        return 0
    command = _command(arguments)
    if not command:
        print(_USAGE, file=sys.stderr)
        return EXIT_USAGE
    pes = pes_wanted(os.environ)
    if wrong := other_pes(command, pes):
        print(f"wattfold: {wrong}", file=sys.stderr)
    key, port = new_key(), free_port()
    environment = os.environ | {KEY_VARIABLE: key, PORT_VARIABLE: str(port)}
    command += [*pes_arguments(command, pes), *ccs_arguments(port, key_file(key))]
    try:
        if arguments[:1] == [REBUILD]:
            command = _in_own_folder(command)
        os.execvpe(command[0], command, environment)  # noqa: S606 - that is what it is for
    except OSError as error:
        print(f"wattfold: {error.filename or command[0]}: {error.strerror}", file=sys.stderr)
    return EXIT_NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
