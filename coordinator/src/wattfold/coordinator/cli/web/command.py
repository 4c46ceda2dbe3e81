"""`web`: the dashboard for browsers, served by a process of the user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from wattfold.coordinator.cli.shared.connection.address import MAX_SOCKET_PATH_BYTES
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.parsing import DURATION_NS

PORT = 8765
HOST = "127.0.0.1"


@click.command("web")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    metavar="PORT",
    help="Port on 127.0.0.1 to serve the page on. 0 = any free port.",
)
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Unix socket to serve the page on instead of a port, for `ssh -L`.",
)
@click.option(
    "--control",
    is_flag=True,
    help="Let the page change and announce budgets, with the rights of this account. Default: the "
    "page only shows.",
)
@click.option(
    "--interval",
    "interval_ns",
    type=DURATION_NS,
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="Minimum time between two snapshots, such as 1s.",
)
@session_command
def web(
    session: Session, port: int, socket_path: Path | None, control: bool, interval_ns: int
) -> None:
    """Serve the web dashboard of the site.

    The page shows power, alarms, nodes, running and waiting jobs. It shows what this account may
    see, and changes nothing unless you give --control. The command prints a link that works once,
    within five minutes. Press Enter for another link, and Ctrl-C to end.

    \b
    wattfold web
    wattfold web --socket /run/user/1000/wattfold/web.sock
    """
    require("aiohttp")
    # aiohttp loads slowly.
    from wattfold.coordinator.cli.web.running import Settings, run_dashboard

    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(_listening(port, socket_path))
        settings = Settings(
            listening=listening,
            port=None if socket_path else listening.getsockname()[1],
            control=control,
            interval_ns=interval_ns,
            tell=_teller(session, socket_path),
        )
        client = stack.enter_context(session.connect())
        client.power()  # It fails here, and not in the page, if there is no coordinator.
        asyncio.run(run_dashboard(session, client, settings))


@contextlib.contextmanager
def _listening(port: int, path: Path | None) -> Iterator[socket.socket]:
    """Return a bound socket. A Unix socket is open to this account only, and removed at the end."""
    if path is None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listening.bind((HOST, port))
            except OSError as error:
                text = f"cannot listen on {HOST}:{port}: {error.strerror}; choose another --port"
                raise CliError(text) from error
            yield listening
        return
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        limit = f"the limit of {MAX_SOCKET_PATH_BYTES} bytes"
        raise CliError(f"socket path {path} is above {limit}; choose a shorter path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        _remove_unused(path)
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        except OSError as error:
            raise CliError(f"cannot listen on {path}: {error.strerror}") from error
        finally:
            os.umask(before)
        try:
            yield listening
        finally:
            path.unlink(missing_ok=True)


def _remove_unused(path: Path) -> None:
    """Remove the socket of a server that was killed. Raises CliError if a server uses it."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CliError(f"cannot use {path}: {error.strerror}") from error
        else:
            raise CliError(f"another server listens on {path}; choose another path")


def _teller(session: Session, path: Path | None) -> Callable[[int | None, str], None]:
    """Return the function that prints an address. ``link`` is the token of a link."""

    def tell(port: int | None, link: str) -> None:
        if port is None:
            # The user chooses the port of the tunnel.
            document: dict[str, object] = {"socket": str(path), "link": None}
            host = socket.gethostname()
            lines = [
                f"Dashboard on {path}. From your computer:",
                f"  ssh -L {PORT}:{path} {host}",
                f"  then open http://localhost:{PORT}/",
            ]
        else:
            url = f"http://{HOST}:{port}/#t={link}"
            document = {"socket": None, "link": url}
            lines = [f"Dashboard: {url}"]
        if session.json:
            from wattfold.coordinator.cli.shared.texts.json_output import dumps_line

            click.echo(dumps_line(document))
        else:
            click.echo("\n".join(lines))
        sys.stdout.flush()

    return tell
