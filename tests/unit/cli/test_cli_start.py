"""Start time of commands: their imports, lists of commands, and tables without rich."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.cli.command import Command

from wattfold.coordinator.cli.main import cli
from wattfold.coordinator.cli.shared.console import OutputConsole
from wattfold.coordinator.cli.shared.lazy_group import LazyGroup
from wattfold.coordinator.cli.shared.texts.short_helps import SHORT_HELPS
from wattfold.coordinator.cli.shared.texts.tables import (
    Styled,
    add_row,
    field_table,
    flexible,
    left,
    plain_table,
    right,
)

SLOW = {"numpy", "scipy", "matplotlib", "pyomo", "ortools", "numba", "pandas", "swiglpk"}
SERVICE = SLOW | {"rich", "importlib.metadata"}
HELP = SERVICE | {"grpc", "asyncio"}
MODULES_OF = """
import sys
from wattfold.commands import wattfold
try:
    wattfold()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def groups(
    group: LazyGroup, words: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], LazyGroup]]:
    """Yield a lazy group and its subgroups, each with its command words."""
    context = click.Context(group)
    found = [(words, group)]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, LazyGroup):
            found += groups(command, (*words, name))
    return found


assert isinstance(cli, LazyGroup)
GROUPS = groups(cli)
COMMANDS = [(), *((*words, name) for words, group in GROUPS for name in group.COMMANDS)]


def imported(*words: str, address: str = "unix:/nowhere") -> set[str]:
    """Modules that a command has imported when it ends."""
    environment = {**os.environ, "WATTFOLD_COORDINATOR": address}
    done = subprocess.run(
        [sys.executable, "-c", MODULES_OF, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [(), ("submit",), ("simulate",)], ids=" ".join)
def test_a_help_text_imports_nothing_slow(words: tuple[str, ...]) -> None:
    assert not imported(*words, "--help") & HELP


def test_help_texts_of_all_commands_import_nothing_slow() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from wattfold.coordinator.cli.main import cli\n"
        f"for words in {COMMANDS!r}:\n"
        "    assert CliRunner().invoke(cli, [*words, '--help']).exit_code == 0, words\n"
        f"    slow = {HELP!r}.intersection(sys.modules)\n"
        "    assert not slow - {'asyncio', 'importlib.metadata'}, (words, slow)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_queue_is_shown_without_slow_modules(wattfold: Command) -> None:
    assert not imported("queue", address=wattfold.address) & SERVICE


@pytest.mark.parametrize(("words", "group"), GROUPS, ids=[" ".join(w) or "-" for w, _ in GROUPS])
def test_lists_of_commands_say_what_the_commands_say(
    words: tuple[str, ...], group: LazyGroup
) -> None:
    context = click.Context(group, info_name=" ".join(words), terminal_width=100)
    formatter = context.make_formatter()
    group.format_commands(context, formatter)
    expected = context.make_formatter()
    click.Group.format_commands(group, context, expected)
    assert formatter.getvalue() == expected.getvalue()
    names = [item.value for item in group.shell_complete(context, "")]
    assert set(group.COMMANDS) <= set(names)


def test_every_listed_command_has_a_short_help() -> None:
    assert set(SHORT_HELPS) == {target for _, group in GROUPS for target in group.COMMANDS.values()}
    assert all(SHORT_HELPS.values())


CELLS = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
    st.text("Mü米é́€", max_size=5),
    st.builds(Styled, st.text("ab c", max_size=9), st.sampled_from(["", "red", "bold green"])),
)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5)


def by_rich(table: object, width: int) -> list[str]:
    """Return a table as rich lays it out, without colours and trailing blanks."""
    console = OutputConsole(file=io.StringIO(), width=width, color_system=None, markup=False)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


@given(rows=ROWS)
def test_a_table_that_fits_looks_as_rich_lays_it_out(rows: list[tuple[str, ...]]) -> None:
    table = plain_table(left("ID"), flexible("NAME"), right("SIZE"))
    for row in rows:
        add_row(table, *row)
    assert table.lines(200, "none") == by_rich(table, 200)


@given(fields=st.lists(st.tuples(st.text("abc", min_size=1, max_size=8), CELLS), max_size=5))
def test_fields_that_fit_look_as_rich_lays_them_out(fields: list[tuple[str, str]]) -> None:
    table = field_table(list(fields))
    assert table.lines(200, "none") == by_rich(table, 200)


@pytest.mark.parametrize("cell", ["two\nlines", "a tab\t"])
def test_cells_that_are_no_line_are_left_to_rich(cell: str) -> None:
    table = plain_table(left("NAME"))
    add_row(table, cell)
    assert table.lines(60, "none") is None


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    table = plain_table(left("STATE"))
    add_row(table, Styled("failed", "bold red"))
    assert table.lines(80, "colors") == ["\x1b[1mSTATE\x1b[0m", "\x1b[1;31mfailed\x1b[0m"]
    assert table.lines(80, "styles") == ["\x1b[1mSTATE\x1b[0m", "\x1b[1mfailed\x1b[0m"]
    assert table.lines(80, "none") == ["STATE", "failed"]
