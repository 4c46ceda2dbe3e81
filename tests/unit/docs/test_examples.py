"""Documents agree with the code: examples load, links are valid, commands and options exist."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wattfold.coordinator.adapters.config import settings as coordinator_config
from wattfold.coordinator.app.main import main as coordinator_command
from wattfold.coordinator.cli.main import cli
from wattfold.nodeagent.adapters import config as agent_config
from wattfold.nodeagent.adapters import config_flags

ROOT = Path(__file__).parents[3]
SKIPPED = {".venv", "build", "demo-out", "node_modules", ".git"}
EXAMPLES = ROOT / "docs" / "examples"
MANUALS = ROOT / "docs" / "man"
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_WORD = re.compile(r"[a-z][a-z-]*\Z")


def documents() -> list[Path]:
    found = []
    for folder, names, files in os.walk(ROOT):
        # These folders are skipped, because other processes build there.
        names[:] = [name for name in names if name not in SKIPPED]
        found += [Path(folder) / name for name in files if name.endswith(".md")]
    return sorted(found)


def prose(path: Path) -> str:
    """A document without its comments."""
    return _COMMENT.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as the usual viewers make them."""
    headings = re.findall(r"^#+\s+(.*?)\s*$", path.read_text(encoding="utf-8"), re.M)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


# ---- examples ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("coordinator*.toml")))
def test_coordinator_examples_load(name: str) -> None:
    config = coordinator_config.load(EXAMPLES / name, {})
    assert config.budget_uw
    assert config.nodes


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("agent*.toml")))
def test_agent_examples_load(name: str, tmp_path: Path) -> None:
    token = tmp_path / "agents.token"
    token.write_text("a token for the test only\n", encoding="ascii")
    token.chmod(0o600)
    # The only setting of the example that this machine lacks.
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    here = tmp_path / name
    here.write_text(text.replace("/etc/wattfold/agents.token", str(token)), encoding="utf-8")
    assert agent_config.load(["--config", str(here)]).node_id


def test_the_laptop_examples_fit_together() -> None:
    agent = agent_config.load(["--config", str(EXAMPLES / "agent-emulated.toml")])
    coordinator = coordinator_config.load(EXAMPLES / "coordinator-laptop.toml", {})
    assert [(n.node_id, n.address) for n in coordinator.nodes] == [(agent.node_id, agent.listen)]


# ---- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    broken = []
    for target in _LINK.findall(prose(document)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        path = document if not file else (document.parent / file).resolve()
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


# ---- commands ----------------------------------------------------------------------------------


def mentioned_commands(text: str) -> Iterator[list[str]]:
    """The words after ``wattfold`` in code, spans and blocks, with continued lines joined."""
    joined = text.replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```", joined, re.S | re.M)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    lines += re.findall(r"(?<!`)`([^`\n]+)`(?!`)", joined)
    for line in lines:
        words = line.split()
        if words and words[0] == "wattfold":
            yield words[1:]


def found_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that the words name and the remaining words. Raises AssertionError."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and _WORD.match(words[0]):
        child = command.get_command(click.Context(command), words[0])
        assert child is not None, f"there is no command {words[0]!r}"
        command, words = child, words[1:]
    # A group may itself be a command, with the options of that command.
    return getattr(command, "default", command), words


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_and_their_options_exist(document: Path) -> None:
    for words in mentioned_commands(prose(document)):
        command, rest = found_command(words)
        known = {o for p in [*command.params, *cli.params] for o in p.opts} | {"--help"}
        own = rest[: rest.index("--")] if "--" in rest else rest
        options = {word.partition("=")[0] for word in own if word.startswith("--")}
        assert options <= known, f"wattfold {' '.join(words)}"


def test_the_tutorial_shows_commands() -> None:
    tutorial = prose(ROOT / "docs" / "tutorial.md")
    names = {words[0] for words in mentioned_commands(tutorial) if words}
    assert {"submit", "queue", "explain", "budget", "watch", "cancel"} <= names


# ---- manual pages of the services --------------------------------------------------------------


def manual(name: str) -> str:
    text = (MANUALS / name).read_text(encoding="utf-8")
    return re.sub(r"\\f[RPBI]", "", text).replace("\\-", "-")


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_the_coordinators_options_are_those_of_its_manual() -> None:
    commands: list[click.Command] = [coordinator_command]
    for command in commands:
        commands += command.commands.values() if isinstance(command, click.Group) else ()
    params = [param for command in commands for param in command.params]
    known = {o for p in params for o in p.opts if o.startswith("--")} | {"--help"}
    assert options_in(manual("wattfold-coordinator.8")) == known


def test_the_agents_options_are_those_of_its_manual(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        config_flags.parse_arguments(["--help"])
    assert ended.value.code == 0
    assert options_in(manual("wattfold-agent.8")) == options_in(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["coordinator.toml", "coordinator-laptop.toml"])
def test_settings_of_the_coordinators_examples_are_in_its_manual(name: str) -> None:
    keys = re.findall(r"^#? ?([a-z_]+) = ", (EXAMPLES / name).read_text(encoding="utf-8"), re.M)
    page = manual("wattfold-coordinator.8")
    missing = [key for key in keys if key not in page]
    assert keys
    assert missing == []


@pytest.mark.parametrize("name", ["agent.toml", "agent-emulated.toml"])
def test_settings_of_the_agents_examples_are_in_its_manual(name: str) -> None:
    keys = re.findall(r"^#? ?([a-z_]+) = ", (EXAMPLES / name).read_text(encoding="utf-8"), re.M)
    page = manual("wattfold-agent.8")
    flags = options_in(page)
    missing = [k for k in keys if k not in page and "--" + k.replace("_", "-") not in flags]
    assert keys
    assert missing == []


# ---- statements on the code ---------------------------------------------------------------------

SOURCES = ("proto", "coordinator/src", "nodeagent/src", "runtime_shims", "scripts", "tests")
NO_FILE = "wattfold/__init__.py"
"""Named because it must not exist: `wattfold` is a namespace."""
_FILE = re.compile(r"(?<!`)`([\w./-]*\w\.(?:py|c|h|proto|sh))`")
_DECISION = re.compile(r"\[(?:decision|ADR) (\d+)\]\([^)]*adr/(\d+)-")


@pytest.fixture(scope="module")
def source_files() -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for tree in SOURCES
        for path in (ROOT / tree).rglob("*.*")
        if not SKIPPED.intersection(path.parts)
    ]


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_documents_name_are_there(document: Path, source_files: list[str]) -> None:
    """Paths match by their end; `...` stands for folders in between."""
    missing = []
    for name in _FILE.findall(prose(document)):
        parts = [part.strip("/") for part in name.split("...")]
        pattern = re.compile("(^|.*/)" + "/(.*/)?".join(map(re.escape, parts)) + r"\Z")
        if name != NO_FILE and not any(pattern.match(file) for file in source_files):
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_decisions_are_named_by_their_numbers(document: Path) -> None:
    wrong = [
        (said, file)
        for said, file in _DECISION.findall(prose(document))
        if said != file.lstrip("0")
    ]
    assert wrong == []


def test_the_generated_parts_of_documents_are_fresh() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "gen_docs", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
