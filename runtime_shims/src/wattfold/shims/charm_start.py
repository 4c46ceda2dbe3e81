"""Launcher of Charm++ programs with a CCS server that only the agent of the node can use.

    python -m wattfold.shims.charm_start --charm4py program.py arguments
    python -m wattfold.shims.charm_start -- ./charmrun ++local ./program arguments
    python -m wattfold.shims.charm_start --rebuild -- ./charmrun ./program arguments

The program gets one PE for each core that the job can ever have (``WATTFOLD_LAUNCH_CPUS``, or
``WATTFOLD_PES`` on several nodes). Outside of a job it gets one PE for each CPU that it may use. A
``+pN`` in the command overrides this. ``--charm4py`` runs a Python program with the charmrun of
charm4py, on all its nodes.

``--rebuild`` is for programs that restart themselves at another size on this node (built with
``--enable-shrinkexpand``). A shell on this node starts its processes, because with ``++local``
restarted processes would inherit the socket of the server. The program also gets its own folder for
its objects during a restart (`charm_checkpoint`).

By default Charm++ listens on all interfaces and requires no key. This launcher chooses a port,
creates a key, and passes both to the agent in the environment, which other accounts cannot read.
Charm++ gets the key only as a file in memory. Then this process becomes the program, or the shell
that waits for it. If another program takes the port in the meantime, Charm++ reports this and ends.
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
    """Return a key in the format of Charm++: decimal pairs, so about 106 bits."""
    return "".join(f"{secrets.randbelow(100):02d}" for _ in range(KEY_BYTES))


def free_port() -> int:
    """Return a port without a listener now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def key_file(key: str) -> str:
    """Return the path of a file in memory that holds the key."""
    return memory_file("wattfold-ccs", f"0 {key}\n")


def memory_file(name: str, text: str) -> str:
    """Return the path of a file in memory that this process and its successors hold open."""
    number = os.memfd_create(name, 0)
    os.write(number, text.encode())
    # Processes of the program open it by path: their descriptor of this number may be another file.
    return f"/proc/{os.getpid()}/fd/{number}"


def ccs_arguments(port: int, auth_path: str) -> list[str]:
    """Return the arguments for charmrun, or for a program that is its own charmrun."""
    return ["++server", "++server-port", str(port), "++server-auth", auth_path]


def local_arguments(pes: int) -> list[str]:
    """Return the arguments that keep all processes of charmrun on this node, after restarts too."""
    nodes = memory_file("wattfold-nodes", "group main\n" + "host 127.0.0.1\n" * pes)
    return ["++nodelist", nodes, "++remote-shell", f"{sys.executable} -m {LOCAL_SHELL}"]


def pes_wanted(environment: Mapping[str, str]) -> int | None:
    """Return one PE for each core that the job can get; None outside of a job."""
    texts = [environment.get(name, "") for name in PES_VARIABLES]
    counts = (int(text) for text in texts if text.isascii() and text.isdecimal())
    return next((count for count in counts if count), None)


def pes_arguments(command: Sequence[str], pes: int | None) -> list[str]:
    """Return ``+pN`` for a command that does not state its number of PEs, else nothing."""
    said = any(_PES.match(word) for word in command)
    return [] if said or pes is None else [f"+p{pes}"]


def other_pes(command: Sequence[str], pes: int | None) -> str:
    """Return the error in the number of PEs of a command, empty if there is none."""
    found = next((m[1] for word in command if (m := _PES.match(word)) and m[1]), None)
    if found is None or pes is None or int(found) == pes:
        return ""
    return f"+p{found} does not match the {pes} cores of the job, so no processor map fits; omit +p"


def _command(arguments: Sequence[str]) -> list[str]:
    """Return the command to become, without added arguments; empty if there is none."""
    if arguments[:1] == [CHARM4PY]:
        program = list(arguments[1:])
        pes = pes_arguments(program, pes_wanted(os.environ) or len(os.sched_getaffinity(0)))
        # On several nodes, charmrun finds them and our remote shell in the environment.
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
    """Become the program; return only on failure."""
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
