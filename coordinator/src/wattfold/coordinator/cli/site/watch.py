"""`watch`: the state of the cluster as it changes, on a screen or as lines."""

from __future__ import annotations

import queue
import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import UnreachableError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.texts.json_output import dumps_line
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.site.watch_lines import snapshot_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
    from wattfold.coordinator.cli.site.watch_feed import Event, Events
    from wattfold.coordinator.cli.site.watch_screen import WatchScreen

REDRAW_S = 0.5
_QUIT_KEYS = frozenset({"q", "Q", "\x03", "\x1b"})


class _StopFlag:
    """Flag for SIGINT and SIGTERM during a `with` block.

    An exception from the handler could occur anywhere in the drawing, even where it is swallowed; a
    flag is checked between two drawings.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.raised = False
        self._previous: list[Any] = []

    def __enter__(self) -> None:
        self._previous = [signal.signal(number, self._note) for number in self._SIGNALS]

    def __exit__(self, *_error: object) -> None:
        for number, handler in zip(self._SIGNALS, self._previous, strict=True):
            signal.signal(number, handler)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self.raised = True


@click.command()
@click.option(
    "--interval",
    "interval_ns",
    type=DURATION_NS,
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Minimum time between two snapshots, such as 1s.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of snapshots to print as lines before the command ends.",
)
@session_command
def watch(session: Session, interval_ns: int, count: int | None) -> None:
    """Watch power, nodes and jobs as they change.

    Press q or Ctrl-C to quit. With --count or --json, or if standard output is not a terminal,
    every snapshot is printed as text or as one line of JSON.
    """
    console = session.console()
    interactive = console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty()
    with session.connect() as client:
        try:
            if session.json or count or not interactive:
                _print_views(session, client, interval_ns, count)
            else:
                client.power()  # It fails here, not on the screen, if there is no coordinator.
                _show_screen(console, client, interval_ns)
        except KeyboardInterrupt:
            return


def _print_views(
    session: Session, client: CoordinatorClient, interval_ns: int, count: int | None
) -> None:
    for printed, view in enumerate(client.watch(interval_ns), start=1):
        if session.json:
            click.echo(dumps_line(as_dict(view)))
        else:
            click.echo("\n".join(snapshot_lines(view)))
        sys.stdout.flush()
        if printed == count:
            return
    raise UnreachableError(
        f"the coordinator at {client.address} ended the stream; run the command again"
    )


def _show_screen(console: Console, client: CoordinatorClient, interval_ns: int) -> None:
    from rich.live import Live

    from wattfold.coordinator.cli.site.watch_feed import QUEUE_LENGTH, ViewFeed, keys_from_terminal
    from wattfold.coordinator.cli.site.watch_screen import WatchScreen

    events: Events = queue.Queue(maxsize=QUEUE_LENGTH)
    screen = WatchScreen(client.address)
    feed = ViewFeed(client, interval_ns, events)
    stop = _StopFlag()
    try:
        with (
            stop,
            keys_from_terminal(sys.stdin.fileno(), events),
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            feed.start()
            _draw_until_quit(console, live, screen, events, stop)
    finally:
        feed.stop()


def _draw_until_quit(
    console: Console, live: Live, screen: WatchScreen, events: Events, stop: _StopFlag
) -> None:
    from wattfold.coordinator.cli.site.watch_feed import FeedEnded, Key, Lost, ReceivedView

    last_view_s = time.monotonic()
    while not stop.raised:
        for event in _next_events(events):
            if isinstance(event, Key) and event.key in _QUIT_KEYS:
                return
            if isinstance(event, FeedEnded):
                raise event.error
            if isinstance(event, Lost):
                screen.lose(event.reason)
            if isinstance(event, ReceivedView):
                screen.take(event.view)
                last_view_s = time.monotonic()
        width, height = console.size
        live.update(screen.render(width, height, time.monotonic() - last_view_s), refresh=True)


def _next_events(events: Events) -> list[Event]:
    """Return all waiting events, or none after a moment, to notice a new terminal size."""
    found: list[Event] = []
    try:
        found.append(events.get(timeout=REDRAW_S))
        while True:
            found.append(events.get_nowait())
    except queue.Empty:
        return found
