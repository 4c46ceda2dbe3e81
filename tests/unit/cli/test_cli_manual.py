"""The manual describes the commands correctly and is readable."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wattfold.coordinator.cli.main import cli
from wattfold.coordinator.cli.shared.exit_codes import ExitCode

MANUALS = Path(__file__).parents[3] / "docs" / "man"


def source(name: str) -> str:
    """The text of a page without the marks of the typesetter."""
    text = (MANUALS / name).read_text(encoding="utf-8")
    return re.sub(r"\\f[RPBI]", "", text).replace("\\-", "-")


def commands(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}".strip())
        # A group may itself be a command.
        if (default := getattr(command, "default", None)) is not None:
            yield path, default


def shown_options(command: click.Command) -> list[click.Option]:
    """Return the options that help texts show; a hidden option refuses an old name."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    return [option for option in options if not option.hidden]


def section(page: str, path: str) -> str:
    """Text on a command in a page, from its heading to the next heading."""
    if not path:
        return page
    found = re.search(rf'^\.SS "?{re.escape(path)}\b.*?(?=^\.S[SH] )', page, re.M | re.S)
    assert found, f"wattfold.1 has no section of {path!r}"
    return found.group()


def test_every_command_and_option_is_in_the_manual() -> None:
    page = source("wattfold.1")
    for path, command in commands(cli):
        if path and isinstance(command, click.Group):
            continue
        text = section(page, path)
        for parameter in shown_options(command):
            if parameter.opts != ["--json"]:
                missing = [option for option in parameter.opts if option not in text]
                assert missing == [], f"not in the section of {path!r}"


def test_every_option_in_the_manual_exists() -> None:
    page = source("wattfold.1").partition(".SH EXAMPLES")[0]
    known = {
        option
        for _, command in commands(cli)
        for parameter in shown_options(command)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) - {"--help"}
    assert mentioned <= known


def test_every_exit_code_is_in_the_manual() -> None:
    codes = source("wattfold.1").partition(".SH EXIT STATUS")[2].partition(".PP")[0]
    assert [int(code) for code in re.findall(r"^\.B (\d+)$", codes, re.M)] == sorted(ExitCode)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("page", sorted(path.name for path in MANUALS.glob("*.[178]")))
def test_pages_render_without_a_warning(page: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(MANUALS / page)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_all_three_pages_are_there() -> None:
    names = {path.name for path in MANUALS.iterdir()}
    assert {"wattfold.1", "wattfold-coordinator.8", "wattfold-agent.8"} <= names
