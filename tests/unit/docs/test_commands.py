"""Every command line in the code blocks of the documents is accepted by the command itself.

Lines are parsed by the real parsers and not executed: commands, options, arguments and the form of
their values must be right. Files that a line names need not exist.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wattfold.coordinator.app.main import main as coordinator_command
from wattfold.coordinator.cli.main import cli
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.nodeagent.adapters import config_flags

ROOT = Path(__file__).parents[3]
DOCUMENTS = [
    path
    for pattern in ("*.md", "docs/*.md", "*/README.md", "*/charm/README.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name != "CHANGELOG.md"
]
SHELL = {"", "sh", "bash", "console"}
"""Languages of blocks that hold commands."""
VARIABLES = {"W": "/w", "WATTFOLD_COORDINATOR": "unix:/w/coordinator.sock", "nodes": "45000"}
"""Values for the shell variables that the lines use."""
AS_COORDINATOR = ["runuser", "-u", "wattfold", "--"]
EXCUSED = {
    "wattfold simulate --model lublin --jobs 60 --nodes 32 --cut-sizes --policy shortest-first": (
        "the page adds this policy; test_adding_a_policy.py runs the line"
    ),
    "wattfold compare --model lublin --jobs 60 --nodes 32 --budget 3.2kW --cut-sizes --policies"
    " easy,shortest-first --set shortest-first.size=min": "the same",
}
"""Lines that the parsers of this version refuse, each with the reason."""
SESSION = Session(address="unix:/w/coordinator.sock", token_file=None, json=False, color=False)
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_CONTINUED = re.compile(r"\s*\\\n\s*")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
_INDENTED = re.compile(r"^ {4}(?! )(.+)$", re.M)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ASSIGNMENT = re.compile(r"\w+=")
_REDIRECTION = re.compile(r"\s*\d?>{1,2}\s*[^\s;&|]+")
_END = {";", "&", "&&", "|", "||", "(", ")"}
_KEYWORDS = {"do", "then", "else", "!"}


def shell_lines(text: str) -> Iterator[str]:
    """The lines of the blocks that hold commands, with continued lines joined."""
    text = _CONTINUED.sub(" ", _COMMENT.sub("", text))
    for language, block in _FENCE.findall(text):
        if language in SHELL:
            yield from (line.strip() for line in block.splitlines())
    yield from _INDENTED.findall(_FENCE.sub("", text))


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of a line, without redirections, assignments and descriptions."""
    line = re.sub(r"\$\([^)]*\)", "x", line)
    line = _VARIABLE.sub(lambda m: VARIABLES.get(m[1], m[0]), line)
    # Tables of commands have a description after some spaces.
    line = re.split(r"\s{2,}", _REDIRECTION.sub("", line))[0]
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return  # Not a line of a shell: an apostrophe in a text.
    command: list[str] = []
    for word in [*words, ";"]:
        if word in _END:
            if command:
                yield command
            command = []
        elif command or not (word in _KEYWORDS or _ASSIGNMENT.match(word)):
            command.append(word)


def commands(text: str) -> list[list[str]]:
    """The commands of Wattfold in the blocks of a document."""
    found = [words for line in shell_lines(text) for words in simple_commands(line)]
    found = [words[4:] if words[:4] == AS_COORDINATOR else words for words in found]
    found = [[words[0].removeprefix(".venv/bin/"), *words[1:]] for words in found]
    return [words for words in found if words[0] in PARSERS or words[0].startswith("scripts/")]


# ---- parsers -----------------------------------------------------------------------------------


def parse_click(
    command: click.Command, words: list[str], parent: click.Context | None = None
) -> None:
    """Raises click.UsageError if the command does not accept the words."""
    context = command.make_context(words[0], words[1:], parent=parent, obj=SESSION)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if isinstance(command, click.Group) and rest:
        name, child, arguments = command.resolve_command(context, rest)
        assert name
        assert child
        parse_click(child, [name, *arguments], context)


def parse_agent(words: list[str]) -> None:
    """Raises SystemExit if the agent does not accept the words; `check` and `restore` as well."""
    arguments = words[1:]
    if arguments[:1] == ["check"]:
        arguments = [word for word in arguments if word != "--json"]
    if arguments[:1] in (["check"], ["restore"]):
        arguments = arguments[1:]
    config_flags.parse_arguments(arguments)


def parse_script(words: list[str]) -> None:
    """The script must exist, and its options must be in it or in the program it starts."""
    script = ROOT / words[0]
    assert os.access(script, os.X_OK), f"{words[0]} is not a program"
    text = script.read_text(encoding="utf-8")
    for module in re.findall(r"-m (wattfold\.[\w.]+)", text):
        [place] = ROOT.glob(f"*/src/{module.replace('.', '/')}")
        text += "".join(path.read_text(encoding="utf-8") for path in place.glob("*.py"))
    if script.name == "bench":
        benchmarks = [ROOT / "scripts" / "benchmarks" / f"{word}.py" for word in words[1:]]
        text += "".join(path.read_text("utf-8") for path in benchmarks if path.exists())
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("--")]
    assert [option for option in options if option not in text] == []


PARSERS = {
    "wattfold": lambda words: parse_click(cli, words),
    "wattfold-coordinator": lambda words: parse_click(coordinator_command, words),
    "wattfold-agent": parse_agent,
}


def parse(words: list[str]) -> None:
    PARSERS.get(words[0], parse_script)(words)


# ---- tests -------------------------------------------------------------------------------------


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that documents name are not looked for, and standard input is a script."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\n")))
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))
    monkeypatch.setattr(click.File, "convert", lambda self, value, param, ctx: None)


@pytest.mark.usefixtures("no_files")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_commands_of_a_document_can_be_parsed(document: Path) -> None:
    wrong = []
    for words in commands(document.read_text(encoding="utf-8")):
        line = shlex.join(words)
        if line in EXCUSED:
            continue
        sys.stdin.seek(0)
        try:
            parse(words)
        except (click.ClickException, SystemExit, AssertionError) as error:
            wrong.append((line, getattr(error, "message", str(error))))
    assert wrong == []


def test_excused_lines_are_in_the_documents() -> None:
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    lines = {shlex.join(words) for text in texts for words in commands(text)}
    assert set(EXCUSED) <= lines


def test_the_guides_have_commands() -> None:
    found = {path.name: len(commands(path.read_text("utf-8"))) for path in DOCUMENTS}
    assert found["getting-started.md"] > 30
    assert found["tutorial.md"] > 10
    assert found["simulation.md"] > 10
    assert found["workloads.md"] == 5
    assert found["predictions.md"] == 5


@pytest.mark.usefixtures("no_files")
@pytest.mark.parametrize(
    "line",
    [
        "wattfold sumbit -- true",
        "wattfold submit --cores many -- true",
        "wattfold budget set --at yesterday 2kW",
        "wattfold node drain",
        "wattfold queue --no-such-option",
        "wattfold simulate --log a.swf --nodes 0",
        "wattfold-agent --no-such-option",
        "wattfold-agent check --no-such-option",
        "wattfold-coordinator restore",
        "runuser -u wattfold -- wattfold-coordinator restore",
        "scripts/no-such-script",
        "scripts/demo --no-such-option",
    ],
)
def test_a_wrong_line_is_found(line: str) -> None:
    [words] = commands(f"    {line}\n")
    with pytest.raises((click.ClickException, SystemExit, AssertionError)):
        parse(words)


def test_lines_are_split_as_a_shell_does() -> None:
    text = """
```sh
A=1 wattfold nodes --json > nodes.json && wattfold power   # a comment
wattfold-agent --state-dir $W/agent \\
    --emulate 2>$W/log &
for nodes in 1 2; do wattfold explain 1; done
```
```text
wattfold is not a command here
```
    wattfold reproduce parm --all     all experiments
"""
    assert commands(text) == [
        ["wattfold", "nodes", "--json"],
        ["wattfold", "power"],
        ["wattfold-agent", "--state-dir", "/w/agent", "--emulate"],
        ["wattfold", "explain", "1"],
        ["wattfold", "reproduce", "parm", "--all"],
    ]
