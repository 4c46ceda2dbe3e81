"""`wattfold-rsh` and `wattfold rsh`: the remote shell for the launcher of a job, inside the job.

    wattfold-rsh [options as of ssh, ignored] HOST COMMAND...

It runs the command on another node of the job, with the input, output, signals and exit code of
this process, as ssh would: 255 is its own error. Launchers start it once per node. It starts
quickly because it imports only the standard library and the contract.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from wattfold.contract.step_protocol import StepRequest, carried
from wattfold.coordinator.cli.rsh.rsh_session import (
    RshError,
    StepHostAt,
    current_folder,
    run_remote,
)

EXIT_OWN = 255
USAGE = "usage: wattfold-rsh [-n] [ssh options, ignored] HOST COMMAND..."
_WITH_VALUE = frozenset("BDEFIJLOPQRSWbceilmopw")
_OUTSIDE = (
    "not inside a job with --own-launcher; submit the launcher with "
    "`wattfold submit --nodes N --own-launcher -- mpirun ./program`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The parsed command line."""

    host: str
    command: str
    no_input: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """A node of the job, as in the file of nodes."""

    node_id: str
    address: str
    alias: str


def parse_call(arguments: Sequence[str]) -> Call:
    """Parse a command line; options may come before and after the host. Raises RshError."""
    rest = list(arguments)
    no_input = _take_options(rest)
    if not rest:
        raise RshError(f"no host given; {USAGE}")
    # user@host: a job has only one account.
    host = rest.pop(0).rpartition("@")[2]
    no_input |= _take_options(rest)
    if not rest:
        raise RshError(f"no command given; {USAGE}")
    return Call(host=host, command=" ".join(rest), no_input=no_input)


def _take_options(rest: list[str]) -> bool:
    """Remove the options at the front; return whether -n is one of them."""
    no_input = False
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--":
            break
        for position, letter in enumerate(option[1:], 2):
            no_input |= letter == "n"
            if letter in _WITH_VALUE:
                if position == len(option) and rest:
                    rest.pop(0)
                break
    return no_input


def read_places(folder: Path) -> list[HostEntry]:
    """Return the nodes of the job, in the order of their ranks. Raises RshError."""
    try:
        lines = (folder / "nodes").read_text(encoding="utf-8").splitlines()
        rows = [line.split(" ") for line in lines]
        return [HostEntry(node_id=row[0], address=row[1], alias=row[2]) for row in rows]
    except (OSError, ValueError, IndexError) as error:
        raise RshError(f"cannot read the nodes of the job: {error}") from None


def find_place(host: str, own: str, hostname: str, places: Sequence[HostEntry]) -> HostEntry:
    """Return the node of a host name. Raises RshError.

    The lookup compares its name in the job, then the name of this machine, then its first part with
    node names, for names with a domain.
    """
    by_name = {place.node_id: place for place in places}
    by_alias = {place.alias: place for place in places if place.alias != "-"}
    here = own if own in by_name else places[0].node_id
    if host in by_name:
        return by_name[host]
    if host in by_alias:
        return by_alias[host]
    if host in ("localhost", "127.0.0.1", "::1", hostname, hostname.partition(".")[0]):
        return by_name[here]
    short = host.partition(".")[0]
    if short in by_name:
        return by_name[short]
    raise RshError(f"{host} is not a node of this job; its nodes are {', '.join(by_name)}")


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Execute a call and return its exit code. Raises RshError."""
    call = parse_call(arguments)
    folder = environment.get("WATTFOLD_STEPS", "")
    if not folder:
        raise RshError(_OUTSIDE)
    own, job = environment.get("WATTFOLD_NODE_ID", ""), environment.get("WATTFOLD_JOB_ID", "")
    places = read_places(Path(folder))
    if not places:
        raise RshError("the job has no nodes")
    place = find_place(call.host, own, socket.gethostname(), places)
    if place.node_id == own:
        return _run_here(call)
    if place is places[0]:
        raise RshError(
            f"{place.node_id} runs the launcher; no steps can be started there from another node"
        )
    if place.address == "-":
        raise RshError(f"node {place.node_id} accepts no steps")
    try:
        key = (Path(folder) / "key").read_bytes()
    except OSError as error:
        raise RshError(f"cannot read the key of the job: {error.strerror}") from None
    request = StepRequest(
        command=os.fsencode(call.command), cwd=current_folder(), env=carried(os.environb)
    )
    node = StepHostAt(address=place.address, node=place.node_id, job=job, key=key)
    return run_remote(request, node, no_input=call.no_input)


def _run_here(call: Call) -> NoReturn:
    """Replace this process with the command: this node needs no agent."""
    if call.no_input:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Python ignores this signal; programs expect to be ended by it.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv("/bin/sh", ["sh", "-c", call.command])  # noqa: S606 - that is what a shell is for


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the command."""
    given = sys.argv[1:] if arguments is None else arguments
    if list(given) in (["--help"], ["-h"]):
        print(USAGE)
        sys.exit(0)
    # Until a command runs there, Ctrl-C ends this process silently.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        code = run(given, os.environ)
    except RshError as error:
        print(f"wattfold-rsh: {error}", file=sys.stderr)
        code = EXIT_OWN
    sys.exit(code)


if __name__ == "__main__":
    main()
